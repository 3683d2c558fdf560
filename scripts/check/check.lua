-- check.lua: checks whether the keys of one standing agree with each other (lib/standing.lua), and repairs what follows
-- from other keys. It checks a small standing as a whole, and a large one part by part (lib/cursor.lua).
--
-- The sorted set follows from the hash, the distinct scores from the sorted set, and the total from both. The script
-- repairs nothing while the shard's data is being copied elsewhere.
--
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
--   expires    ms since the epoch: when the standing may be dropped, 0: never, or not known
--   must_expire   whether it already had to expire when it began
--   mend       whether to repair what follows from other keys
--   registry   of the shard: the key of the journal of hides follows from it (lib/hides.lua)
--
-- Reply: {'STALE'} another definition is in use | {'GONE'} none of its keys exists | {'ENDING'} they are about to expire |
--   {'OK', next phase ('': this was the last part), next cursor, 1 if it was checked as a whole, else 0, difference, …}
-- A difference is {code, 1 if it was repaired, otherwise 0, …}:
--   type         key, type, the type that it should have
--   no_state     the series' state lacks this standing
--   expiry       the earliest and the latest expiry of its keys, ms since the epoch, -1: never
--   no_expiry    the standing should expire, and does not
--   remnant      how many members remain of a standing that has expired
--   no_hash      how many members the sorted set has, while the hash has none
--   too_long     how many members are listed, how many should be listed
--   number       member, score: the score is not an integer within the bounds
--   unreadable   key, member
--   unlisted     member, score, time: in the hash, but not in the sorted set
--   score        member, score, time in the hash; score in the sorted set
--   stray        member, score, time in the sorted set; score, time in the hash
--   undistinct   score of a member that is not among the distinct scores
--   distinct     member, score: a distinct score that no member has
--   hidden       member: its entry in the hidden list (lib/hidden.lua) contradicts its hide; '' where the list has lost
--                entries. To repair it, the list is dropped; it is built again when it is needed
--   hidden_total   the stored sum of the hidden list differs from that of its entries
--   total        high, low: the total that is stored; high, low: the sum of the scores
--
-- Example: ann with 5 points, listed twice, under two times:
--   KEYS  st:{b} st:{b}:1:s:day:2026-11-21 st:{b}:1:s:day:2026-11-21:members
--   reply {'OK', '', '0', 1, {'stray', 0, 'ann', '-5', '7', '-5', '8'}}

local ENDING_MS, APART_MS_MAX = 60000, 60000
local AT_ONCE_MAX = 500
local TYPES = {zset = 'zset', hash = 'hash', dense = 'zset', total = 'hash'}
local PARTS = {'zset', 'hash', 'dense', 'total'}

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR check.lua: 2 keys or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])
local layout = args.layout
local standing = standing_at(open_standings(layout, {}), 2)
local STATE = args.is_derived and KEYS[#KEYS]

local head = call('HMGET', KEYS[1], 'version', 'moving', 'hides')
if not is_in_use(head[1], args.generation, args.revision) then return {'STALE'} end
local mends = args.mend and not head[2]
-- The standing's hidden list, if members were hidden; and whether it has followed all hides, so that it can be compared.
local hidden, follows = nil, false

local function reply_with(phase, cursor, is_whole)
  return {'OK', phase, cursor, is_whole and 1 or 0, unpack(differences)}
end

local function unlink_all()
  unlink_standing(standing)
end

-- A part of a derived standing that can't be repaired is removed: then check_sums.lua finds it missing.
local takes_away = mends and STATE

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
  zset = STATE or found.hash == 'hash', dense = true, total = true,
  hash = STATE or (layout.prefixed and not layout.data and layout.keep == 0 and found.zset == 'zset'),
}
for _, part in ipairs(PARTS) do
  if found[part] and found[part] ~= 'none' and found[part] ~= TYPES[part] then
    local is_mended = mends and can_follow[part]
    if is_mended then call('UNLINK', standing[part]) end
    is_unusable = is_unusable or not is_mended
    differs('type', is_mended, standing[part], found[part], TYPES[part])
  end
end
if is_unusable then return reply_with('', '0', false) end

local function drop_hidden_list()
  if not mends then return false end
  call('UNLINK', hidden.list, hidden.scores)
  call('HDEL', hidden.state, 'number', 'count', 'distinct', 'high', 'low')
  follows = false
  return true
end

local function check_hidden_keys()
  local expected = {'zset', 'zset', 'hash'}
  for index, key in ipairs(hidden_keys_of(standing.zset)) do
    local type = type_of(key)
    if type ~= 'none' and type ~= expected[index] then
      if mends then call('UNLINK', key) end
      differs('type', mends, key, type, expected[index])
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
  for place, number in ipairs(call('ZMSCORE', hides.journal, unpack(ids))) do
    local is_hidden = number and number % 2 == 1
    local is_right = not listed[place]
    if is_hidden then is_right = tonumber(listed[place] or nil) == scores[place] end
    if not is_right then
      differs('hidden', drop_hidden_list(), ids[place])
      if not follows then return end
    end
  end
end

-- When the keys of the standing expire: the earliest, the latest, and whether one never does.
local first_end, last_end, is_endless = nil, nil, false
for _, key in ipairs(keys_of(standing)) do
  local ends = call('PEXPIRETIME', key)
  if ends >= 0 then
    first_end, last_end = math.min(first_end or ends, ends), math.max(last_end or ends, ends)
  elseif ends == -1 then
    is_endless = true
  end
end

-- One key may have expired when the next has not yet.
local function is_ending()
  local time = call('TIME')
  local redis_now = time[1] * 1000 + math.floor(time[2] / 1000)
  return first_end and first_end < redis_now + ENDING_MS
end

local function check_ends()
  if first_end and (is_endless or last_end - first_end > APART_MS_MAX) then
    if mends then
      for _, key in ipairs(keys_of(standing)) do call('PEXPIREAT', key, number_text(last_end)) end
    end
    differs('expiry', mends, number_text(is_endless and -1 or first_end), number_text(last_end))
  elseif not first_end and args.must_expire and args.expires > 0 then
    if mends then
      for _, key in ipairs(keys_of(standing)) do call('PEXPIRE', key, number_text(args.expires - args.now)) end
    end
    differs('no_expiry', mends)
  end
end

-- The parts of a member of the sorted set: its time, if it has one, and its id; nil if it is malformed.
local function taken_apart(member)
  if not layout.prefixed then return nil, member end
  if #member <= TIE_KEY_BYTES then return nil, nil end
  return struct.unpack(TIE_KEY_FORM, member), string.sub(member, TIE_KEY_BYTES + 1)
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
  if args.expires > 0 and args.expires <= args.now then
    if mends then unlink_all() end
    differs('remnant', mends, number_text(count))
    return true
  end
  local packed, seen = {}, {}
  local can_mend = mends and layout.prefixed and not layout.data and layout.keep == 0 and count <= args.whole_max
  local flat = can_mend and call('ZRANGE', standing.zset, 0, -1, 'WITHSCORES') or {}
  for index = 1, #flat, 2 do
    local time, id = taken_apart(flat[index])
    local score = tonumber(flat[index + 1])
    can_mend = can_mend and id and not seen[id] and is_score(score)
    if can_mend then
      seen[id] = true
      packed[#packed + 1], packed[#packed + 2] = id, struct.pack(ENTRY_FORM, time, score)
    end
  end
  if not can_mend and takes_away then unlink_all() end
  differs('no_hash', can_mend or takes_away, number_text(count))
  if not can_mend then return true end
  for index = 1, #packed, AT_ONCE_MAX do
    call('HSET', standing.hash, unpack(packed, index, math.min(#packed, index + AT_ONCE_MAX - 1)))
  end
  if last_end then call('PEXPIREAT', standing.hash, number_text(last_end)) end
  return false
end

-- The sum, in two parts as lib/standing.lua keeps it.
local high, low = 0, 0
local function add(score)
  local of_score = math.floor(score / LOW)
  high, low = high + of_score, low + (score - of_score * LOW)
end

-- Entries of the sorted set, as a flat list of members and scores.
local function check_zset(flat)
  local members, ids, times, scores, texts = {}, {}, {}, {}, {}
  for index = 1, #flat, 2 do
    local time, id = taken_apart(flat[index])
    local score = tonumber(flat[index + 1])
    if not id then
      if mends then call('ZREM', standing.zset, flat[index]) end
      differs('unreadable', mends, standing.zset, flat[index])
    elseif not is_score(score) then
      if takes_away then call('ZREM', standing.zset, flat[index]) end
      differs('number', takes_away, id, flat[index + 1])
    else
      local place = #ids + 1
      members[place], ids[place], times[place], scores[place] = flat[index], id, time, score
      texts[place] = number_text(score)
      if not layout.hashed then add(score) end
    end
  end
  if #ids == 0 then return end
  if not layout.hashed then check_hidden(ids, members, scores) end
  local is_stray, is_told = {}, {}
  if layout.hashed then
    for place, packed in ipairs(call('HMGET', standing.hash, unpack(ids))) do
      local score, time = unpacked(packed)
      if not packed or (score and as_listed(ids[place], time) ~= members[place]) then
        is_stray[place] = true
        if mends then call('ZREM', standing.zset, members[place]) end
        differs('stray', mends, ids[place], texts[place], shown(times[place]), shown(score), shown(time))
      end
    end
  end
  if layout.dense then
    for place, known in ipairs(call('ZMSCORE', standing.dense, unpack(texts))) do
      local text = texts[place]
      -- A score that several members share is reported once.
      if not known and not is_stray[place] and not is_told[text] then
        if mends then call('ZADD', standing.dense, text, text) end
        is_told[text] = true
        differs('undistinct', mends, text)
      end
    end
  end
end

-- Entries of the hash, as a flat list of ids and packed scores.
local function check_members(flat)
  -- Members after the last of the surely best entries need not be listed.
  local exact = hidden and hidden.exact or layout.keep
  local last = layout.keep > 0 and call('ZCARD', standing.zset) >= exact
    and (exact > 0 and call('ZRANGE', standing.zset, exact - 1, exact - 1, 'WITHSCORES') or {'', '-inf'})
  local last_score = last and tonumber(last[2])
  local ids, scores, times, members = {}, {}, {}, {}
  for index = 1, #flat, 2 do
    local score, time = unpacked(flat[index + 1])
    if not score or not is_score(score) then
      if takes_away then call('HDEL', standing.hash, flat[index]) end
      if score then
        differs('number', takes_away, flat[index], shown(score))
      else
        differs('unreadable', takes_away, standing.hash, flat[index])
      end
    else
      local place = #ids + 1
      ids[place], scores[place], times[place] = flat[index], score, time
      members[place] = as_listed(flat[index], time)
      add(score)
    end
  end
  if #ids == 0 then return end
  check_hidden(ids, members, scores)
  for place, listed in ipairs(call('ZMSCORE', standing.zset, unpack(members))) do
    local score, member = scores[place], members[place]
    local is_kept_off = not listed and last
      and (score > last_score or (score == last_score and is_before(last[1], member)))
    if not is_kept_off and (not listed or tonumber(listed) ~= score) then
      local text = number_text(score)
      if mends then
        call('ZADD', standing.zset, text, member)
        if layout.dense then call('ZADD', standing.dense, text, text) end
      end
      if listed then
        differs('score', mends, ids[place], text, shown(times[place]), shown(tonumber(listed)))
      else
        differs('unlisted', mends, ids[place], text, shown(times[place]))
      end
    end
  end
  if mends and not hidden then keep_best(standing) end
end

-- Entries of the distinct scores, as a flat list of members and scores.
local function check_distinct(flat)
  for index = 1, #flat, 2 do
    local text, score = flat[index], flat[index + 1]
    local is_known = tonumber(text) == tonumber(score) and text == shown(tonumber(score))
    if not is_known or call('ZCOUNT', standing.zset, score, score) == 0 then
      if mends then call('ZREM', standing.dense, text) end
      differs('distinct', mends, text, score)
    end
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
}

-- The phases in their order. In a truncated list strays are removed first: only then does it show who is missing.
local phases = {'zset'}
if layout.hashed then table.insert(phases, layout.keep > 0 and 2 or 1, 'hash') end
if layout.dense then table.insert(phases, 'dense') end
-- A later part of the walk may find that the list has fallen behind: then it compares nothing.
if hidden then table.insert(phases, 'hidden') end

local function phase_after(phase)
  for place, other in ipairs(phases) do
    if other == phase then return phases[place + 1] or '' end
  end
end

-- Passes on a flat list of pairs, as many at a time as a command takes.
local function check_pairs(check, flat)
  if #flat <= 2 * AT_ONCE_MAX then return check(flat) end
  for first = 1, #flat, 2 * AT_ONCE_MAX do
    check({unpack(flat, first, math.min(#flat, first + 2 * AT_ONCE_MAX - 1))})
  end
end

local function check_total()
  local stored = call('HMGET', standing.total, 'high', 'low')
  local stored_high, stored_low = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  local carried = math.floor(low / LOW)
  high, low = high + carried, low - carried * LOW
  if stored_high == high and stored_low == low then return end
  if mends then call('HSET', standing.total, 'high', number_text(high), 'low', number_text(low)) end
  differs('total', mends, shown(stored_high), shown(stored_low), number_text(high), number_text(low))
end

local phase, cursor = args.phase, args.cursor
if phase == '' then
  if is_ending() then return {'ENDING'} end
  if STATE then
    local entries, is_known = readable_entries(STATE), false
    for _, entry in ipairs(entries or {}) do is_known = is_known or entry.zset == standing.zset end
    if entries and not is_known then
      if mends then unlink_all() end
      differs('no_state', mends)
      return reply_with('', '0', false)
    end
  end
  if check_hash() then return reply_with('', '0', false) end
  check_ends()
  local count = call('ZCARD', standing.zset)
  -- Hidden members make the list longer.
  if layout.keep > 0 and not hidden and count > layout.keep then
    if mends then keep_best(standing) end
    differs('too_long', mends, number_text(count), number_text(layout.keep))
  end
  phase = phases[1]
end

local size = 0
for _, walk in pairs(WALKS) do size = size + (walk.key and call(walk.size, walk.key) or 0) end
if args.phase == '' and size <= args.whole_max then
  for _, each in ipairs(phases) do check_pairs(WALKS[each].check, call(unpack(WALKS[each].whole))) end
  if layout.summed then check_total() end
  if layout.summed and follows then check_hidden_total() end
  return reply_with('', '0', true)
end
local walk = WALKS[phase]
local flat, next_cursor = scan_on(walk.scan, walk.key, cursor, args.part)
check_pairs(walk.check, flat)
if next_cursor == '0' then phase = phase_after(phase) end
return reply_with(phase, next_cursor, false)
