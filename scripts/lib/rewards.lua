-- lib/rewards.lua: what members of a shard have won in a final period.
-- Uses: lib/keys.lua, lib/capture.lua
--
-- Two keys of a period:
--   lines   hash: member -> its reward line, MessagePack of {walk, entries}. `walk`: the number of the last walk that has
--           decided on it. entries = list of
--             {rule: index of the rule, from 0; rank, score (as it is shown, scaled): of the member when it last won;
--              state: 'open' | 'claimed' | 'revoked': it was claimed, and is no longer won | 'lost': no longer won, not
--              claimed;
--              revision: the last revision of the result that has decided on it; before: its state before that revision;
--              log: list of {revision, change}, each 'gained' | 'lost' | 'revoked' | 'restored';
--              claim: once it was claimed, {by, at (ms), rank: of the member at that time}}
--   index   sorted set, all under score 0, for finding parts of long lists. It follows from the lines:
--             'l', rule (2 digits), rank (15 digits), member       an entry that the list shows: any but a lost one
--             'c', revision (15 digits), rule (2 digits), member   a change
--
-- A *walk* decides for all members whether they win: hand_out.lua for those that do, and then take_back.lua for all others.
-- One caller at a time has the lease of the board's rewards and walks, and a shard refuses calls under an earlier lease
-- (`rewards_lease` of the head). A walk may be repeated under the same revision, because an entry is decided by its state
-- before that revision.

local AFTER = {
  won = {lost = 'open', open = 'open', claimed = 'claimed', revoked = 'claimed'},
  not_won = {lost = 'lost', open = 'lost', claimed = 'revoked', revoked = 'revoked'},
}
local CHANGES = {open = 'gained', claimed = 'restored', revoked = 'revoked', lost = 'lost'}

-- The rewards of a period, by the key of its lines.
local function rewards_of(registry, lines)
  return {registry = registry, lines = lines, index = index_of_rewards(registry, lines)}
end

-- The rewards of a period for a caller that walks. `keys`: the head, the registry and the lines; `args` name the version
-- and the lease. From then on earlier leases are refused. Returns nil and the reply if the version is another one, or if a
-- later lease is known.
local function hold_rewards(keys, args)
  local head = redis.call('HMGET', keys[1], 'version', 'moving', 'rewards_lease')
  if head[1] ~= args.version or tonumber(head[3] or 0) > args.lease then return nil, {'STALE'} end
  redis.call('HSET', keys[1], 'rewards_lease', string.format('%d', args.lease))
  if head[2] then start_capture(head[2]) end
  return rewards_of(keys[2], keys[3])
end

local function load_line(lines, member)
  local packed = redis.call('HGET', lines, member)
  if packed then return cmsgpack.unpack(packed) end
  return {entries = {}}
end

-- The entry of a rule in a line.
local function entry_of(line, rule)
  for _, entry in ipairs(line.entries) do
    if entry.rule == rule then return entry end
  end
end

-- The names of a member's entries in the index.
local function names_of_line(member, line)
  local names = {}
  for _, entry in ipairs(line.entries) do
    if entry.state ~= 'lost' then names[#names + 1] = string.format('l%02d%015d', entry.rule, entry.rank) .. member end
    for _, change in ipairs(entry.log) do
      names[#names + 1] = string.format('c%015d%02d', change[1], entry.rule) .. member
    end
  end
  return names
end

-- The rule and the member that an index name of an entry is made of.
local function rule_and_member(name)
  return tonumber(string.sub(name, 2, 3)), string.sub(name, 19)
end

-- Stores a line, or removes it (nil), and updates the index; `before`: the names that the index has of the member.
local function store_line(rewards, member, before, line)
  local gone = {}
  for _, name in ipairs(before) do gone[name] = true end
  for _, name in ipairs(line and names_of_line(member, line) or {}) do
    if not gone[name] then redis.call('ZADD', rewards.index, 0, name) end
    gone[name] = nil
  end
  for name in pairs(gone) do redis.call('ZREM', rewards.index, name) end
  if line and #line.entries > 0 then
    redis.call('SADD', rewards.registry, rewards.lines, rewards.index)
    redis.call('HSET', rewards.lines, member, cmsgpack.pack(line))
  else
    redis.call('HDEL', rewards.lines, member)
  end
  capture(KIND_REWARDS, rewards.lines, member)
end

-- Decides under a revision whether an entry is won.
local function decide(entry, is_won, revision)
  if entry.revision ~= revision then entry.before, entry.revision = entry.state, revision end
  local log = entry.log
  if #log > 0 and log[#log][1] == revision then log[#log] = nil end
  entry.state = AFTER[is_won and 'won' or 'not_won'][entry.before]
  -- The first revision of a result has nothing to be compared with.
  if entry.state ~= entry.before and revision > 1 then log[#log + 1] = {revision, CHANGES[entry.state]} end
end

-- Decides under a revision what a member wins. `won`: a map of the indexes of rules; at this rank, with this score.
local function decide_line(rewards, member, line, walk, revision, won, rank, score)
  local names, known, entries = names_of_line(member, line), {}, {}
  for _, entry in ipairs(line.entries) do known[entry.rule] = entry end
  for rule in pairs(won) do
    if not known[rule] then
      line.entries[#line.entries + 1] = {rule = rule, state = 'lost', before = 'lost', revision = revision, log = {}}
    end
  end
  for _, entry in ipairs(line.entries) do
    decide(entry, won[entry.rule], revision)
    if won[entry.rule] then entry.rank, entry.score = rank, score end
    if entry.state ~= 'lost' or #entry.log > 0 then entries[#entries + 1] = entry end
  end
  line.walk, line.entries = walk, entries
  store_line(rewards, member, names, line)
end
