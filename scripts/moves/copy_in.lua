-- copy_in.lua: writes data of a board that moves to other shards into a new shard, as the old ones have it.
-- Uses: lib/slot.lua, lib/keys.lua, lib/standing.lua, lib/hides.lua, lib/erasures.lua, lib/hidden.lua, lib/follow.lua, lib/periods.lua, lib/rewards.lua, lib/history.lua
--
-- Later calls replace what earlier calls have written; voters are united. Once the shard is open, calls are refused.
--
-- Takes: 3 keys or more, 1 argument or more
-- KEYS[1]  head of the new shard, KEYS[2] registry, KEYS[3] a scratch key, which exists only during the call
-- KEYS[4…] named by their index in ARGV[1]: standings (`layout.width` keys each), turnouts, voters, states, keys to drop
--
-- ARGV[1]  MessagePack of a map:
--   generation, lease   whose data it is, and under which lease it was read (lease.lua)
--   layout      see lib/standing.lua
--   lines       list of {code of a kind, name, place in ARGV of the line, 0: none, index in KEYS, 0 where a shard has one
--               key of the kind, expires}: of hides, erasing members, rewards and folded entries by member, of erasures by
--               name, of events by their ids, of the intake by field. Of two lines of one erasure the later one stays
--   standings   list of {standing, expires, whether it lists all members whatever the layout says,
--                names, scores (false: not listed), times (tie keys), data (empty unless the layout has it)}
--   turnouts    list of {key, expires, tag of the shard that has counted, number}
--   voters      list of {key, expires, place of the HyperLogLog in ARGV}
--   states      list of {key, place in ARGV}; see lib/derived.lua. The keys of a standing that a state lists go into the
--               registry even if it has no members here yet: the event that adds the first does not check
--   dropped     list of keys
--   letters     list of {entry, places in ARGV of its fields}: dead letters, appended to those that exist (end_queued.lua);
--   letters_kept   for how many ms they are kept at most
--   closed_until, final_until   ms since the epoch, nil for none: the greatest barrier of the old shards, and up to where
--               periods are final in all of them (close_shard.lua)
--   events_from   ms since the epoch, nil for none: the greatest of the old shards (lib/history.lua)
-- ARGV[2…] byte strings
-- `expires` is in ms since the epoch, 0: never.
--
-- Reply: {'OK'} | {'SUPERSEDED'} a later lease is known, or the board was deleted | {'OPEN'} it has been opened
--
-- Example: bob, with 3 points in a standing with ties by member; nothing else:
--   KEYS st:{b:2:0:1} st:{b:2:0:1}:1:keys st:{b:2:0:1}:1:scratch st:{b:2:0:1}:1:s:day:2026-11-21
--   ARGV {generation='1', lease=1, …, lines={}, standings={{4, 0, false, {'bob'}, {-3}, {0}, {}}}, turnouts={}, …}
--   reply {'OK'}

local HEAD, REGISTRY, SCRATCH = KEYS[1], KEYS[2], KEYS[3]
local args = cmsgpack.unpack(ARGV[1])
load_hides()
load_periods()
require_slot(HEAD)

local head = call('HMGET', HEAD, 'version', 'lease', 'closed_until', 'final_until', 'events_from')
local generation, revision = string.match(head[1] or '', '^(%d+)-(%d+)$')
if generation ~= args.generation or tonumber(head[2] or 0) > args.lease then return {'SUPERSEDED'} end
if revision ~= '0' then return {'OPEN'} end
call('HSET', HEAD, 'lease', args.lease)
-- The shard is not opened before the replicas have them.
if args.closed_until and args.closed_until > tonumber(head[3] or '-inf') then
  call('HSET', HEAD, 'closed_until', number_text(args.closed_until))
end
if args.final_until and args.final_until > tonumber(head[4] or '-inf') then
  call('HSET', HEAD, 'final_until', number_text(args.final_until))
end

if args.events_from and args.events_from > tonumber(head[5] or '-inf') then
  call('HSET', HEAD, 'events_from', number_text(args.events_from))
end

local function register(key, expires)
  call('SADD', REGISTRY, key)
  if expires > 0 then call('PEXPIREAT', key, number_text(expires)) end
end

-- Lines of one member may come in any order: it stays hidden while it has a hide, or data of it may remain.

local own_hides, ERASING = hides_of(HEAD, REGISTRY), beside_registry(REGISTRY, KIND_ERASING)

local function copy_hide(member, hide)
  set_hide(own_hides, member, hide)
  if not hide and call('HEXISTS', ERASING, member) == 1 then write_line(own_hides, member, true) end
end

local function copy_erasing(member, line)
  if line then
    -- The registry here is another one, so the walk begins again: with the dead letters that were copied (forget.lua).
    call('HSET', ERASING, member, 'dead/-/0-0' .. string.sub(line, string.find(line, ' ') or #line + 1))
    call('SADD', REGISTRY, ERASING)
    write_line(own_hides, member, true)
  elseif call('HDEL', ERASING, member) == 1 and call('HEXISTS', own_hides.lines, member) == 0 then
    forget_in_journal(own_hides, member)
  end
end

local function copy_erasure(name, line)
  if name == '' then return begin_erasures(HEAD, REGISTRY, line) end
  local known, erasure = call('HGET', beside_registry(REGISTRY, KIND_ERASED), name), unpack_erasure(line)
  erasure.name = name
  if not known or is_later_line(erasure, unpack_erasure(known)) then store_erasure(REGISTRY, erasure) end
end

local function copy_rewards(member, packed, key)
  local rewards = rewards_of(REGISTRY, key)
  local before = names_of_line(member, load_line(key, member))
  store_line(rewards, member, before, packed and cmsgpack.unpack(packed))
end

local PAST_INITIAL = beside_registry(REGISTRY, KIND_PAST_INITIAL)

local function copy_past_initial(member, line)
  if not line then return call('HDEL', PAST_INITIAL, member) end
  call('HSET', PAST_INITIAL, member, line)
  call('SADD', REGISTRY, PAST_INITIAL)
end

local INTAKE = beside_registry(REGISTRY, KIND_INTAKE)

local function copy_intake(field, value)
  call('HSET', INTAKE, field, value)
  call('SADD', REGISTRY, INTAKE)
end

local function copy_event(id, row)
  load_history()
  local history = open_history(HEAD, REGISTRY, args.layout)
  local before = call('HGET', history.rows, id)
  if before == row then return end
  if before then drop_rows(history, {id, before}) end
  if row then add_row(history, id, row) end
end

local function copy_folded(member, entry, key, expires)
  if not entry then return call('HDEL', key, member) end
  call('HSET', key, member, entry)
  register(key, expires)
end

local function copy_standing(first, expires, lists_all, ids, scores, times, data)
  local layout = lists_all and layout_of_all(args.layout) or args.layout
  local names, members = {}, {}
  for m, id in ipairs(ids) do names[m], members[m] = id, m end
  local standing = standing_at(open_standings(layout, names), first)
  load(standing, members)
  for index, m in ipairs(members) do
    local score = scores[index]
    set(standing, m, score, score and layout.hashed and times[index] or nil, data[index])
  end
  local is_new = flush(standing)
  if is_new then note_period(REGISTRY, standing.zset) end
  if count_members(standing) == 0 then
    unlink_standing(standing)
    call('SREM', REGISTRY, unpack(keys_of(standing)))
  elseif is_new or expires > 0 then
    -- A closing may have changed when it expires.
    for _, key in ipairs(keys_of(standing)) do register(key, expires) end
  end
end

local function merge_voters(key, expires, voters)
  call('SET', SCRATCH, voters)
  call('PFMERGE', key, SCRATCH)
  call('DEL', SCRATCH)
  register(key, expires)
end

local SET = {
  [KIND_HIDES] = copy_hide, [KIND_ERASING] = copy_erasing, [KIND_ERASED] = copy_erasure, [KIND_REWARDS] = copy_rewards,
  [KIND_PAST_INITIAL] = copy_past_initial, [KIND_INTAKE] = copy_intake, [KIND_EVENTS] = copy_event,
  [KIND_FOLDED] = copy_folded,
}
for _, line in ipairs(args.lines) do
  SET[line[1]](line[2], line[3] > 0 and ARGV[line[3]] or nil, KEYS[line[4]], line[5])
end
local number = call('HGET', HEAD, 'hides')
if number then open_hides(number, REGISTRY) end
for _, standing in ipairs(args.standings) do copy_standing(unpack(standing, 1, 7)) end
for _, count in ipairs(args.turnouts) do
  local key, expires, tag, number = KEYS[count[1]], count[2], count[3], count[4]
  call('HSET', key, tag, number_text(number))
  register(key, expires)
end
for _, voters in ipairs(args.voters) do merge_voters(KEYS[voters[1]], voters[2], ARGV[voters[3]]) end
for _, state in ipairs(args.states) do
  call('SET', KEYS[state[1]], ARGV[state[2]])
  call('SADD', REGISTRY, KEYS[state[1]])
  for _, entry in ipairs(cmsgpack.unpack(ARGV[state[2]])) do call('SADD', REGISTRY, unpack(keys_of(entry))) end
end
local DEAD_LETTERS = beside_registry(REGISTRY, KIND_DEAD_LETTERS)
for _, letter in ipairs(args.letters) do
  local fields = {}
  for index, place in ipairs(letter[2]) do fields[index] = ARGV[place] end
  call('SADD', REGISTRY, DEAD_LETTERS)
  call('XADD', DEAD_LETTERS, letter[1], unpack(fields))
  call('PEXPIRE', DEAD_LETTERS, args.letters_kept)
end
for _, dropped in ipairs(args.dropped) do
  call('UNLINK', KEYS[dropped])
  call('SREM', REGISTRY, KEYS[dropped])
end
return {'OK'}
