-- check.lua: checks whether the keys of one standing agree with each other (lib/standing.lua), and repairs what follows
-- from other keys. It checks a small standing as a whole, and a large one part by part (lib/cursor.lua).
-- Uses: lib/cursor.lua, lib/keys.lua, lib/standing.lua, lib/hidden.lua, lib/check.lua
--
-- What one of the two keys of the members has lost follows from the other. If they have different entries of a member, only
-- a third key can show which is right; else both stay. The distinct scores, the total and the length of a truncated list
-- follow from the members, once these agree. The script repairs nothing while the shard's data is being copied elsewhere.
--
-- Takes: 2 keys or more, 1 argument
-- KEYS[1]  head of the shard, or board
-- KEYS[2…] the standing (`layout.width` keys), and then of a derived one the state of its series (lib/derived.lua)
--
-- ARGV[1]  MessagePack of a map:
--   generation, revision   of the definition that the caller uses
--   layout     see lib/standing.lua
--   is_derived
--   phase      what is walked: '' at first
--   cursor     '0' at first
--   whole_max  a standing with at most this many entries, over all of its keys, is checked as a whole
--   part       about how many entries of a larger one one call checks
--   now        ms since the epoch
--   expires    ms since the epoch: when the standing expires by the definition, 0: never, or not known
--   is_certain whether it has had this expiry from its beginning
--   summing    whether scores are sums: then the time of a 0 may be that of zeros alone, which only the hash knows
--   conflicts  ids of members with different entries, which earlier calls have found
--   is_doubtful   whether earlier calls have left something of this standing unrepaired
--   repair     see lib/check.lua
--   registry   of the shard: the keys of its hides follow from it (lib/hides.lua)
--
-- Reply: {'STALE'} another definition is in use | {'GONE'} none of its keys exists | {'ENDING'} they are about to expire |
--   {'OK', next phase ('': this was the last part), next cursor, 1 if it was checked as a whole, else 0, difference, …}
-- A difference is {code, outcome, …} (lib/check.lua):
--   type         key, type, the type that it should have
--   no_state     the series' state lacks this standing
--   expiry       the earliest and the latest expiry of its keys, ms since the epoch, -1: never
--   no_expiry    the standing should expire, and does not
--   remnant      how many members remain of a standing that has expired
--   no_hash      how many members a truncated list has, while the hash has none: it has lost the others
--   no_member    member, score, time: in the sorted set, but not in the hash
--   too_long     how many members are listed, how many should be listed
--   number       member, score: the score is not an integer within the bounds
--   unreadable   key, member
--   unlisted     member, score, time: in the hash, but not in the sorted set
--   score        member, score, time in the hash; score in the sorted set
--   stray        member, score, time in the sorted set; score, time in the hash. If the sorted set also has the entry of the
--                hash, the member is listed twice
--   undistinct   score of a member that is not among the distinct scores
--   distinct     member, score: a distinct score that no member has
--   hidden       member: its entry in the hidden list (lib/hidden.lua) contradicts its hide; '' where the list has lost
--                entries. To repair it, the list is dropped; it is built again when it is needed. This must not show a
--                member that may be hidden
--   hidden_score   score: whether only hidden members have it is stored wrongly; repaired like that
--   hidden_total   the stored sum of the hidden list differs from that of its entries
--   total        high, low: the total that is stored; high, low: the sum of the scores
--
-- Example: ann with 5 points, listed twice, under two times:
--   KEYS  st:{b} st:{b}:1:s:day:2026-11-21 st:{b}:1:s:day:2026-11-21:members
--   reply {'OK', '', '0', 1, {'stray', 0, 'ann', '-5', '7', '-5', '8'}}

local ENDING_MS, APART_MS_MAX = 60000, 60000
-- A hidden list with more entries is not dropped.
local HIDDEN_MAX = 10000
local AT_ONCE_MAX = 2000
local TYPES = {zset = 'zset', hash = 'hash', dense = 'zset', total = 'hash'}
local PARTS = {'zset', 'hash', 'dense', 'total'}

local args = cmsgpack.unpack(ARGV[1])
local layout = args.layout
local standing = standing_at(open_standings(layout, {}), 2)
local STATE = args.is_derived and KEYS[#KEYS]

local head = call('HMGET', KEYS[1], 'version', 'moving', 'hides')
if not is_in_use(head[1], args.generation, args.revision) then return {'STALE'} end
may, is_doubtful = head[2] and 0 or args.repair, args.is_doubtful
-- The standing's hidden list, if members were hidden; and whether it has followed all hides, so that it can be compared.
local hidden, follows = nil, false

local function reply_with(phase, cursor, is_whole)
  return {'OK', phase, cursor, is_whole and 1 or 0, unpack(differences)}
end

-- Types. A key of the wrong type is removed if it can be rebuilt from the other keys.
local found, is_there, is_unusable = {}, false, false
for _, part in ipairs(PARTS) do
  local key = standing[part]
  if key then
    found[part] = type_of(key)
    is_there = is_there or found[part] ~= 'none'
  end
end
if not is_there then return {'GONE'} end
local can_follow = {
  zset = found.hash == 'hash', dense = true, total = true, hash = layout.prefixed and found.zset == 'zset',
}
for _, part in ipairs(PARTS) do
  if found[part] and found[part] ~= 'none' and found[part] ~= TYPES[part] then
    local outcome = by_command(removing(can_follow[part]), 'UNLINK', standing[part])
    is_unusable = is_unusable or outcome ~= REPAIRED
    differs('type', outcome, standing[part], found[part], TYPES[part])
  end
end
if is_unusable then return reply_with('', '0', false) end

-- Whether the hidden list can be built again without showing a hidden member: the journal, from which it is built, has
-- each of its members as hidden, or all that is stored of hides has the member as visible.
local function has_certain_members()
  local size = call('ZCARD', hidden.list)
  if size > HIDDEN_MAX or (size > 0 and call('EXISTS', hides.journal) == 0) then return false end
  local ids = {}
  for place, member in ipairs(call('ZRANGE', hidden.list, 0, -1)) do
    ids[place] = layout.prefixed and string.sub(member, TIE_KEY_BYTES + 1) or member
  end
  local hides_key, hidden_key = beside_registry(args.registry, KIND_HIDES), beside_registry(args.registry, KIND_HIDDEN)
  for first = 1, #ids, AT_ONCE_MAX do
    local some = {unpack(ids, first, math.min(#ids, first + AT_ONCE_MAX - 1))}
    local hide, is_hidden = call('HMGET', hides_key, unpack(some)), call('ZMSCORE', hidden_key, unpack(some))
    for place, number in ipairs(call('ZMSCORE', hides.journal, unpack(some))) do
      if not (number and number % 2 == 1) and (hide[place] or is_hidden[place]) then return false end
    end
  end
  return true
end

-- Drops the hidden list; returns the outcome.
local is_list_certain = nil
local function drop_hidden_list()
  if is_list_certain == nil then is_list_certain = may >= WRITE and has_certain_members() end
  local outcome = removing(is_list_certain)
  if outcome == REPAIRED then
    call('UNLINK', hidden.list, hidden.scores)
    call('HDEL', hidden.state, 'number', 'count', 'distinct', 'high', 'low')
    follows = false
  end
  return outcome
end

local function check_hidden_keys()
  local expected = {'zset', 'zset', 'hash'}
  for index, key in ipairs(hidden_keys_of(standing.zset)) do
    local type = type_of(key)
    if type ~= 'none' and type ~= expected[index] then
      differs('type', by_command(removing(true), 'UNLINK', key), key, type, expected[index])
      return
    end
  end
  open_hides(head[3], args.registry)
  hidden = hidden_of(standing)
  follows = hidden.number == hides.number
  if follows and not is_list_whole(hidden) then differs('hidden', drop_hidden_list(), '') end
end

if head[3] then
  load_hides()
  check_hidden_keys()
end

-- Compares members of the standing with its hidden list: their ids, their members of the sorted set, and their scores.
local function check_hidden(ids, members, scores)
  if not follows or #ids == 0 then return end
  local listed = call('ZMSCORE', hidden.list, unpack(members))
  load_marks(ids)
  for place, id in ipairs(ids) do
    local is_right = not listed[place]
    if is_hide(hides.marks[id]) then is_right = tonumber(listed[place] or nil) == scores[place] end
    if not is_right then
      differs('hidden', drop_hidden_list(), id)
      if not follows then return end
    end
  end
end

-- When the keys of the standing expire: the instants, the first of them, and how many keys never do.
local ends, first_end, endless = {}, nil, 0
for _, key in ipairs(keys_of(standing)) do
  local instant = call('PEXPIRETIME', key)
  if instant >= 0 then
    ends[#ends + 1], first_end = instant, math.min(first_end or instant, instant)
  elseif instant == -1 then
    endless = endless + 1
  end
end

-- One key may have expired when the next has not yet.
local function is_ending()
  local time = call('TIME')
  local redis_now = time[1] * 1000 + math.floor(time[2] / 1000)
  return first_end and first_end < redis_now + ENDING_MS
end

-- When the standing expires, nil: never. The definition decides if it is certain, else most keys, and in doubt the
-- definition.
local function right_end()
  local is_endless = args.expires == 0
  if not args.is_certain and endless ~= #ends then is_endless = endless > #ends end
  if is_endless then return nil end
  local right, most, keys_at = nil, 0, {}
  for _, instant in ipairs(ends) do
    keys_at[instant] = (keys_at[instant] or 0) + 1
    if keys_at[instant] > most or (keys_at[instant] == most and instant > right) then
      right, most = instant, keys_at[instant]
    end
  end
  return right
end

-- Lets a key expire with the standing.
local standing_end = right_end()
local function end_with_standing(key)
  if standing_end then call('PEXPIREAT', key, number_text(standing_end)) else call('PERSIST', key) end
end

local function check_ends()
  local last_end = first_end and math.max(unpack(ends))
  if first_end and (endless > 0 or last_end - first_end > APART_MS_MAX or not standing_end) then
    local outcome = writing(true)
    if outcome == REPAIRED then
      for _, key in ipairs(keys_of(standing)) do end_with_standing(key) end
    end
    differs('expiry', outcome, number_text(endless > 0 and -1 or first_end), number_text(last_end))
  elseif not first_end and args.is_certain and args.expires > 0 then
    local outcome = (args.expires > args.now and writing or removing)(true)
    if outcome == REPAIRED then
      for _, key in ipairs(keys_of(standing)) do call('PEXPIRE', key, number_text(args.expires - args.now)) end
    end
    differs('no_expiry', outcome)
  end
end

-- The parts of a member of the sorted set: its time, if it has one, and its id; nil if it is malformed.
local function taken_apart(member)
  if not layout.prefixed then return nil, member end
  if #member <= TIE_KEY_BYTES then return nil, nil end
  local time = struct.unpack(TIE_KEY_FORM, member)
  if time >= 2 ^ 53 then return nil, nil end
  return time, string.sub(member, TIE_KEY_BYTES + 1)
end

local function as_listed(id, time)
  return prefix_of(layout, time) .. id
end

-- Whether this is valid after a score: nothing, or the data of an entry.
local function is_data(text)
  return text == '' or (layout.data and string.sub(text, 1, 1) == '{' and pcall(cjson.decode, text))
end

-- The score and time that a hash holds for a member; nil if they, or its data, can't be read.
local function unpacked(packed)
  if not packed or #packed < ENTRY_BYTES or not is_data(string.sub(packed, ENTRY_BYTES + 1)) then return nil end
  local time, score = struct.unpack(ENTRY_FORM, packed)
  return score, time
end

-- Sums can pass the bound when periods of the opposite sign have dropped out.
local function is_score(score)
  return score == math.floor(score) and math.abs(score) <= (STATE and 2 ^ 63 or SCORE_MAX)
end

-- Handles a lost hash whose members the sorted set has. Returns true if nothing is left to compare.
local function check_hash()
  local count = call('ZCARD', standing.zset)
  if not layout.hashed or count == 0 or call('EXISTS', standing.hash) == 1 then return false end
  if args.is_certain and args.expires > 0 and args.expires <= args.now then
    local outcome = removing(true)
    if outcome == REPAIRED then unlink_standing(standing) end
    differs('remnant', outcome, number_text(count))
    return true
  end
  if layout.keep > 0 and count >= layout.keep then differs('no_hash', LEFT, number_text(count)) end
  return false
end

-- The sum, in two parts as lib/standing.lua keeps it.
local high, low = 0, 0
local function add(score)
  local of_score = math.floor(score / LOW)
  high, low = high + of_score, low + (score - of_score * LOW)
end

local conflicts = {}
for _, id in ipairs(args.conflicts) do conflicts[id] = true end

-- Writes an entry into the hash, or the sorted set.
local function put_in_hash(id, time, score, data)
  local is_new = call('EXISTS', standing.hash) == 0
  call('HSET', standing.hash, id, struct.pack(ENTRY_FORM, time, score) .. data)
  if is_new then end_with_standing(standing.hash) end
end

local function put_in_list(member, score)
  local text, is_new = number_text(score), call('EXISTS', standing.zset) == 0
  call('ZADD', standing.zset, text, member)
  if layout.dense then call('ZADD', standing.dense, text, text) end
  if is_new then
    end_with_standing(standing.zset)
    if layout.dense then end_with_standing(standing.dense) end
  end
end

-- Stores the entry that the sorted set has of a member in the hash, which has nothing valid of it. Returns whether it did.
local function fill(id, time, score, packed, is_only)
  local data = layout.data and packed and string.sub(packed, ENTRY_BYTES + 1) or ''
  local follows_from_list = layout.prefixed and is_only and is_score(score) and is_data(data)
    and (score ~= 0 or not args.summing)
  local outcome = writing(follows_from_list)
  if outcome == REPAIRED then put_in_hash(id, time, score, data) end
  if not packed then
    differs('no_member', outcome, id, shown(score), shown(time))
  elseif outcome == REPAIRED and unpacked(packed) then
    differs('number', outcome, id, shown(unpacked(packed)))
  elseif outcome == REPAIRED then
    -- What is not repaired is reported with the entries of the hash.
    differs('unreadable', outcome, standing.hash, id)
  end
  return outcome == REPAIRED
end

-- Compares entries of the sorted set with those of the hash. Returns which of them the hash confirms.
local function confirmed_by_hash(members, ids, times, scores)
  local stored, homes, is_confirmed, count_of = call('HMGET', standing.hash, unpack(ids)), {}, {}, {}
  local hash_scores, hash_times = {}, {}
  for place, id in ipairs(ids) do
    local score, time = unpacked(stored[place])
    local is_valid = score and is_score(score)
    hash_scores[place], hash_times[place] = is_valid and score, time
    homes[place] = is_valid and as_listed(id, time) or members[place]
    count_of[id] = (count_of[id] or 0) + 1
  end
  local listed = call('ZMSCORE', standing.zset, unpack(homes))
  for place, id in ipairs(ids) do
    local score, time = hash_scores[place], hash_times[place]
    if not score then
      is_confirmed[place] = fill(id, times[place], scores[place], stored[place], count_of[id] == 1)
    elseif homes[place] ~= members[place] then
      local is_listed_twice = tonumber(listed[place]) == score
      local outcome = by_command(removing(is_listed_twice), 'ZREM', standing.zset, members[place])
      conflicts[id] = conflicts[id] or not is_listed_twice
      differs('stray', outcome, id, shown(scores[place]), shown(times[place]), shown(score), shown(time))
    else
      is_confirmed[place] = score == scores[place]
    end
  end
  return is_confirmed
end

-- Entries of the sorted set, as a flat list of members and scores.
local function check_zset(flat)
  local members, ids, times, scores, is_confirmed = {}, {}, {}, {}, {}
  for index = 1, #flat, 2 do
    local time, id = taken_apart(flat[index])
    local score = tonumber(flat[index + 1])
    if not id then
      differs('unreadable', by_command(removing(true), 'ZREM', standing.zset, flat[index]), standing.zset, flat[index])
    elseif not layout.hashed and not is_score(score) then
      differs('number', LEFT, id, flat[index + 1])
    else
      local place = #ids + 1
      members[place], ids[place], times[place], scores[place] = flat[index], id, time, score
      is_confirmed[place] = true
      if not layout.hashed then add(score) end
    end
  end
  if #ids == 0 then return end
  if layout.hashed then
    is_confirmed = confirmed_by_hash(members, ids, times, scores)
  else
    check_hidden(ids, members, scores)
  end
  if not layout.dense then return end
  local texts, is_told = {}, {}
  for place, score in ipairs(scores) do texts[place] = shown(score) end
  for place, known in ipairs(call('ZMSCORE', standing.dense, unpack(texts))) do
    local text = texts[place]
    -- A score that several members share is reported once.
    if tonumber(known or nil) ~= scores[place] and is_confirmed[place] and not is_told[text] then
      local outcome = writing(true)
      if outcome == REPAIRED then
        call('ZADD', standing.dense, text, text)
        end_with_standing(standing.dense)
      end
      is_told[text] = true
      differs('undistinct', outcome, text)
    end
  end
end

-- Members whose score differs in both keys: which is right, 'hash' or 'list'; nil: unknown.
local function right_of(hash_score, list_score)
  if not is_score(list_score) then return 'hash' end
  if not layout.dense then return nil end
  local known = call('ZMSCORE', standing.dense, number_text(hash_score), number_text(list_score))
  if not known[1] == not known[2] then return nil end
  return known[1] and 'hash' or 'list'
end

-- Takes the score that is right for both keys.
local function settle(right, id, entry, listed)
  local outcome = writing(right)
  if outcome == REPAIRED and right == 'hash' then put_in_list(entry.member, entry.score) end
  if outcome == REPAIRED and right == 'list' then put_in_hash(id, entry.time, listed, entry.data) end
  differs('score', outcome, id, number_text(entry.score), shown(entry.time), shown(listed))
end

-- Those that only the total can decide, of a standing that is checked as a whole: {id, entry in the hash, listed score}.
local undecided = {}

-- Entries of the hash, as a flat list of ids and packed scores.
local function check_members(flat, is_whole)
  -- Members after the last of the entries that are certainly the best need not be listed.
  local exact = hidden and hidden.exact or layout.keep
  local last = layout.keep > 0 and call('ZCARD', standing.zset) >= exact
    and (exact > 0 and call('ZRANGE', standing.zset, exact - 1, exact - 1, 'WITHSCORES') or {'', '-inf'})
  local last_score, is_longer = last and tonumber(last[2]), false
  local ids, scores, times, members, data = {}, {}, {}, {}, {}
  for index = 1, #flat, 2 do
    local score, time = unpacked(flat[index + 1])
    if not score then
      differs('unreadable', LEFT, standing.hash, flat[index])
    elseif not is_score(score) then
      differs('number', LEFT, flat[index], shown(score))
    else
      local place = #ids + 1
      ids[place], scores[place], times[place] = flat[index], score, time
      members[place], data[place] = as_listed(flat[index], time), string.sub(flat[index + 1], ENTRY_BYTES + 1)
      add(score)
    end
  end
  if #ids == 0 then return end
  check_hidden(ids, members, scores)
  for place, listed in ipairs(call('ZMSCORE', standing.zset, unpack(members))) do
    local id, score, member = ids[place], scores[place], members[place]
    local is_kept_off = not listed and last
      and (score > last_score or (score == last_score and is_before(last[1], member)))
    -- A member with another entry was reported with that.
    if not listed and not is_kept_off and not conflicts[id] then
      local outcome = writing(true)
      if outcome == REPAIRED then put_in_list(member, score) end
      is_longer = is_longer or outcome == REPAIRED
      differs('unlisted', outcome, id, number_text(score), shown(times[place]))
    elseif listed and tonumber(listed) ~= score then
      local entry = {member = member, score = score, time = times[place], data = data[place]}
      local right = right_of(score, tonumber(listed))
      if right or not is_whole or not layout.summed then
        settle(right, id, entry, tonumber(listed))
        if right == 'list' then add(tonumber(listed) - score) end
      else
        undecided[#undecided + 1] = {id, entry, tonumber(listed)}
      end
    end
  end
  if is_longer and not hidden and not is_doubtful then keep_best(standing) end
end

-- Entries of the distinct scores, as a flat list of members and scores.
local function check_distinct(flat)
  for index = 1, #flat, 2 do
    local text, score = flat[index], flat[index + 1]
    local is_known = tonumber(text) == tonumber(score) and text == shown(tonumber(score))
    if not is_known or call('ZCOUNT', standing.zset, score, score) == 0 then
      differs('distinct', by_command(removing(not is_doubtful), 'ZREM', standing.dense, text), text, score)
    end
  end
end

-- Whether a score is better than that of the last entry of a truncated list: the scores that only hidden members have are not
-- used for the others.
local function is_before_end(score)
  if layout.keep == 0 then return true end
  return score < tonumber(call('ZRANGE', standing.zset, -1, -1, 'WITHSCORES')[2] or '-inf')
end

-- Checks whether the scores that only hidden members have are right about a score of the hidden list.
local checked_scores = {}
local function check_hidden_score(score)
  if checked_scores[score] or not is_before_end(score) then return end
  checked_scores[score] = true
  local text = number_text(score)
  local borne = call('ZCOUNT', standing.zset, text, text)
  local is_only = borne > 0 and call('ZCOUNT', hidden.list, text, text) >= borne
  local stored = tonumber(call('ZSCORE', hidden.scores, text) or nil)
  if stored ~= (is_only and score or nil) then differs('hidden_score', drop_hidden_list(), text) end
end

-- Entries of these scores, as a flat list of members and scores. Each has to be in the hidden list.
local function check_hidden_scores(flat)
  for index = 1, #flat, 2 do
    if not follows then return end
    local score = tonumber(flat[index])
    local is_known = score and flat[index] == shown(score)
      and (call('ZCOUNT', hidden.list, flat[index], flat[index]) > 0 or not is_before_end(score))
    if not is_known then differs('hidden_score', drop_hidden_list(), flat[index]) end
  end
end

-- Entries of the hidden list, as a flat list of members and scores. Each has to be an entry of the standing.
local function check_hidden_list(flat)
  if not follows then return end
  local ids, members, scores = {}, {}, {}
  for index = 1, #flat, 2 do
    local _, id = taken_apart(flat[index])
    local place = #ids + 1
    ids[place], members[place], scores[place] = id or flat[index], flat[index], tonumber(flat[index + 1])
  end
  if #ids == 0 then return end
  local stored = call(layout.hashed and 'HMGET' or 'ZMSCORE', layout.hashed and standing.hash or standing.zset, unpack(ids))
  for place, found in ipairs(stored) do
    local score, time = found and tonumber(found), nil
    if layout.hashed then score, time = unpacked(found) end
    if score ~= scores[place] or (time and as_listed(ids[place], time) ~= members[place]) then
      differs('hidden', drop_hidden_list(), ids[place])
      if not follows then return end
    elseif layout.dense then
      check_hidden_score(score)
      if not follows then return end
    end
  end
end

local function check_hidden_total()
  local sum_high, sum_low, flat = 0, 0, call('ZRANGE', hidden.list, 0, -1, 'WITHSCORES')
  for index = 2, #flat, 2 do
    local of_score = math.floor(flat[index] / LOW)
    sum_high, sum_low = sum_high + of_score, sum_low + (flat[index] - of_score * LOW)
  end
  if (hidden.high - sum_high) * LOW + hidden.low - sum_low ~= 0 then differs('hidden_total', drop_hidden_list()) end
end

local WALKS = {
  zset = {key = standing.zset, size = 'ZCARD', whole = {'ZRANGE', standing.zset, 0, -1, 'WITHSCORES'}, scan = 'ZSCAN',
    check = check_zset},
  hash = {key = standing.hash, size = 'HLEN', whole = {'HGETALL', standing.hash}, scan = 'HSCAN',
    check = check_members},
  dense = {key = standing.dense, size = 'ZCARD', whole = {'ZRANGE', standing.dense, 0, -1, 'WITHSCORES'}, scan = 'ZSCAN',
    check = check_distinct},
  hidden = {key = hidden and hidden.list, size = 'ZCARD', whole = {'ZRANGE', hidden and hidden.list, 0, -1, 'WITHSCORES'},
    scan = 'ZSCAN', check = check_hidden_list},
  hidden_scores = {key = layout.dense and hidden and hidden.scores, size = 'ZCARD',
    whole = {'ZRANGE', hidden and hidden.scores, 0, -1, 'WITHSCORES'}, scan = 'ZSCAN', check = check_hidden_scores},
}

-- The phases in their order. The sorted set shows who has different entries, and in a truncated list who is missing.
local phases = {'zset'}
if layout.hashed then table.insert(phases, 'hash') end
if layout.dense then table.insert(phases, 'dense') end
-- A later part of the walk may find that the list has fallen behind: then it compares nothing.
if hidden then table.insert(phases, 'hidden') end
if hidden and layout.dense then table.insert(phases, 'hidden_scores') end

local function phase_after(phase)
  for place, other in ipairs(phases) do
    if other == phase then return phases[place + 1] or '' end
  end
end

-- Passes on a flat list of pairs, as many at a time as a command takes.
local function check_pairs(check, flat, is_whole)
  if #flat <= 2 * AT_ONCE_MAX then return check(flat, is_whole) end
  for first = 1, #flat, 2 * AT_ONCE_MAX do
    check({unpack(flat, first, math.min(#flat, first + 2 * AT_ONCE_MAX - 1))})
  end
end

-- What the total says about members whose score differs in both keys: which of the two keys is right for all of them.
local function decide(missing)
  local difference = 0
  for _, conflict in ipairs(undecided) do difference = difference + conflict[3] - conflict[2].score end
  local right = missing == 0 and 'hash' or missing == difference and 'list'
  if difference == 0 then right = nil end
  for _, conflict in ipairs(undecided) do settle(right, unpack(conflict)) end
  if right == 'list' then add(difference) end
end

local function check_total()
  local stored = call('HMGET', standing.total, 'high', 'low')
  local stored_high, stored_low = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  if #undecided > 0 then decide((stored_high - high) * LOW + stored_low - low) end
  local carried = math.floor(low / LOW)
  high, low = high + carried, low - carried * LOW
  if stored_high == high and stored_low == low then return end
  local outcome = writing(not is_doubtful)
  if outcome == REPAIRED then
    call('HSET', standing.total, 'high', number_text(high), 'low', number_text(low))
    end_with_standing(standing.total)
  end
  differs('total', outcome, shown(stored_high), shown(stored_low), number_text(high), number_text(low))
end

-- Hidden members make the list longer.
local function check_length()
  local count = call('ZCARD', standing.zset)
  if layout.keep == 0 or hidden or count <= layout.keep then return end
  local outcome = removing(not is_doubtful)
  if outcome == REPAIRED then keep_best(standing) end
  differs('too_long', outcome, number_text(count), number_text(layout.keep))
end

local phase, cursor = args.phase, args.cursor
if phase == '' then
  if is_ending() then return {'ENDING'} end
  if STATE then
    local entries, is_known = readable_entries(STATE), false
    for _, entry in ipairs(entries or {}) do is_known = is_known or entry.zset == standing.zset end
    if entries and not is_known then
      differs('no_state', LEFT)
      return reply_with('', '0', false)
    end
  end
  if check_hash() then return reply_with('', '0', false) end
  check_ends()
  phase = phases[1]
end

local size = 0
for _, walk in pairs(WALKS) do size = size + (walk.key and call(walk.size, walk.key) or 0) end
if args.phase == '' and size <= args.whole_max then
  for _, each in ipairs(phases) do check_pairs(WALKS[each].check, call(unpack(WALKS[each].whole)), true) end
  check_length()
  if layout.summed then check_total() end
  if layout.summed and follows then check_hidden_total() end
  return reply_with('', '0', true)
end
local walk = WALKS[phase]
if phase == 'hidden' and cursor == '0' and layout.summed and follows and hidden.count <= args.whole_max then
  check_hidden_total()
end
local flat, next_cursor = scan_on(walk.scan, walk.key, cursor, args.part)
check_pairs(walk.check, flat)
if next_cursor == '0' then phase = phase_after(phase) end
if phase == '' then check_length() end
return reply_with(phase, next_cursor, false)
