-- lib/standing.lua: reads and changes the members of a standing, many at a time.
-- Uses: lib/keys.lua, lib/capture.lua, lib/changed.lua
--
-- A standing is one to four keys, by the board's layout (src/domain/series.rs, `Layout`):
--   zset   sorted set: score -> member. Scores are integers, negated on boards where the greatest is first,
--          so that rank 1 always has the smallest. If `prefixed`, a member is seven bytes of tie key
--          (big-endian; src/domain/ties.rs) and the id; otherwise the id alone.
--   hash   if `hashed`: id -> seven bytes of time, eight bytes of score (big-endian double), and if `data` the data of the
--          entry: canonical JSON, '' for none. (So the data is read, copied and deleted with the entry.)
--   dense  if `dense`: sorted set of the distinct scores, each a member under its own value.
--   total  if `summed`: hash of the sum of all scores, `high` × 2^32 + `low`: it can pass 2^53.
-- The keys exist together, and expire together. A key that loses its last entry is deleted, and its time to live with it.
-- So new entries are written before old ones are removed, and a total is written with the first member, even if it is zero.
-- If `keep` is not 0, the list is truncated: the sorted set has only that many of the best members, while the hash holds
-- all. This needs no search, because no score drops on such boards: an unlisted member can enter the list only by its own
-- event. Reads show `shown` of them; the rest is a spare for hidden members (lib/hidden.lua).
--
-- layout = {prefixed, hashed, data, dense, summed: booleans; keep, shown; later: 1 where a greater tie key is a later time,
--           else -1; width: how many keys a standing has}. Where scripts get it as a list, this is the order.
-- `time` is nil where the layout is not hashed. It is a tie key as a number below 2^53, or -1 - tie key where nothing but
-- zeros was added to a sum: a zero reaches no score, so it gives a time only until something else does (`latest`). Lua's
-- `<` on strings follows the server's locale, so tie keys are never compared as strings.
--
-- A script numbers the members that it works on; `names[m]` is the id of member m. It loads the members that it needs with
-- one command per standing, works on them in memory, and flushes the changes with a few commands, because a call of Redis
-- costs more than most commands do.
--
-- standings = what `open_standings` returns, the standings that a script works on: {layout, names,
--             opened = sorted set -> standing, at = index in KEYS -> standing}
-- A standing in memory has its keys, `layout` and `names`, and lists indexed by member number. (A table for each member
-- would cost more than everything else.)
--   score[m]       nil: not loaded; false: not listed
--   time[m]        where it is listed and the layout is hashed
--   data[m]        where it is listed; the list itself is nil unless the layout has `data`
--   old_score[m], old_time[m], old_data[m]   the stored values
--   touched        numbers of members that may have to be flushed
--   stored_total   its total, if it was read and has not changed since
--   stored_count   how many entries the sorted set has, if that was read and has not changed since
--   hidden         its hidden list, once it was read (lib/hidden.lua)

-- The base of the two parts of a total: 2^32.
local LOW = 4294967296

local call = redis.call

-- The shard's hides as a script knows them, and the functions that keep a standing's hidden list, and its truncated list,
-- correct when entries change (lib/follow.lua). No script looks further if no member was ever hidden.
local hides, follow_changes, bound_of, note_lost

-- Notes what was written of a standing, for exports that are being read (lib/trail.lua). Nil if the shard has none.
local note_state

-- Aborts the script with the name of the invariant, if it does not hold. What the script has written stays.
local function invariant(holds, name)
  if not holds then error('invariant: ' .. name) end
end

-- A layout that the script got as a list.
local function named_layout(list)
  return {
    prefixed = list[1], hashed = list[2], data = list[3], dense = list[4], summed = list[5], keep = list[6], shown = list[7],
    later = list[8], width = list[9],
  }
end

-- The layout of a standing that lists all members, whatever that of the others says.
local function layout_of_all(layout)
  local own = {}
  for name, value in pairs(layout) do own[name] = value end
  own.keep, own.shown = 0, 0
  return own
end

-- The standings that a script works on, by their sorted sets. A script that changes one of another kind sets its `kind`,
-- under which changes are captured (lib/capture.lua).
local function open_standings(layout, names)
  return {layout = layout, names = names, opened = {}, at = {}}
end

-- The standing whose keys are in these fields of a table.
local function open_standing(standings, keys)
  local standing = standings.opened[keys.zset]
  if not standing then
    standing = {
      zset = keys.zset, hash = keys.hash, dense = keys.dense, total = keys.total, kind = KIND_STANDING,
      layout = standings.layout, names = standings.names,
      score = {}, time = {}, old_score = {}, old_time = {}, touched = {},
    }
    if standings.layout.data then standing.data, standing.old_data = {}, {} end
    standings.opened[keys.zset] = standing
  end
  return standing
end

-- The standing whose keys begin at KEYS[first].
local function standing_at(standings, first)
  local standing = standings.at[first]
  if standing then return standing end
  local layout, keys, index = standings.layout, {zset = KEYS[first]}, first
  if layout.hashed then
    index = index + 1
    keys.hash = KEYS[index]
  end
  if layout.dense then
    index = index + 1
    keys.dense = KEYS[index]
  end
  if layout.summed then keys.total = KEYS[index + 1] end
  standing = open_standing(standings, keys)
  standings.at[first] = standing
  return standing
end

-- The keys of a standing, in a list; with those of its hidden list if members were hidden.
local function keys_of(standing)
  local keys = {standing.zset}
  keys[#keys + 1] = standing.hash
  keys[#keys + 1] = standing.dense
  keys[#keys + 1] = standing.total
  if hides then
    for _, key in ipairs(hidden_keys_of(standing.zset)) do keys[#keys + 1] = key end
  end
  return keys
end

local function unlink_standing(standing)
  note_change()
  if note_state then note_state(standing, {}, true) end
  call('UNLINK', unpack(keys_of(standing)))
  call('UNLINK', unpack(hidden_keys_of(standing.zset)))
end

-- A score as Redis reads it; Lua's default conversion keeps only 14 digits.
local function number_text(score)
  return string.format('%d', score)
end

local function is_later(layout, a, b)
  return (a - b) * layout.later > 0
end

-- Picks the time of a sum: the latest nonzero event; if there are only zeros, the earliest.
local function latest(layout, a, b)
  if a == nil or b == nil then return a or b end
  if (a < 0) ~= (b < 0) then return a < 0 and b or a end
  return (a - b) * layout.later > 0 and a or b
end

-- How many bytes of two texts are compared at a time.
local BLOCK = 32

-- Whether the bytes of one text sort before those of another, as Redis sorts them.
local function is_before(one, other)
  local first = 1
  while first <= #one and string.sub(one, first, first + BLOCK - 1) == string.sub(other, first, first + BLOCK - 1) do
    first = first + BLOCK
  end
  for index = first, math.min(#one, #other) do
    local byte, other_byte = string.byte(one, index), string.byte(other, index)
    if byte ~= other_byte then return byte < other_byte end
  end
  return #one < #other
end

-- The first number from `low` on for which a condition does not hold; `high` if it holds for all below. It must not hold
-- for any number after that: the search is binary.
local function first_without(low, high, holds)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if holds(middle) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Of two otherwise equal entries, the data that counts.
local function greater_data(one, other)
  return is_before(one, other) and other or one
end

-- The prefix in the sorted set of members with this time.
local function prefix_of(layout, time)
  if not layout.prefixed then return '' end
  return struct.pack(TIE_KEY_FORM, time < 0 and -1 - time or time)
end

-- A member as the sorted set has it.
local function zmember(standing, m, time)
  local id = standing.names[m]
  return standing.layout.prefixed and struct.pack(MEMBER_FORM, time < 0 and -1 - time or time, id) or id
end

-- The stored scores (false: not listed), times and data of members; the data is nil unless the layout has it.
local function fetch(standing, ids)
  if not standing.layout.hashed then
    local scores = call('ZMSCORE', standing.zset, unpack(ids))
    for index = 1, #ids do scores[index] = scores[index] and tonumber(scores[index]) end
    return scores, {}
  end
  local stored, unpack_member = call('HMGET', standing.hash, unpack(ids)), struct.unpack
  local times, data = {}, standing.layout.data and {}
  for index = 1, #ids do
    local packed = stored[index]
    if packed then
      times[index], stored[index] = unpack_member(ENTRY_FORM, packed)
      if data then data[index] = string.sub(packed, ENTRY_BYTES + 1) end
    end
  end
  return stored, times, data
end

-- Loads the members that are not loaded yet, with one command.
local function load(standing, members)
  local score, names = standing.score, standing.names
  local missing, ids, count = {}, {}, 0
  for index = 1, #members do
    local m = members[index]
    if score[m] == nil then
      count = count + 1
      missing[count], ids[count] = m, names[m]
      score[m] = false
    end
  end
  if count == 0 then return end
  local time, old_score, old_time = standing.time, standing.old_score, standing.old_time
  local scores, times, data = fetch(standing, ids)
  for index = 1, count do
    local m, stored, at = missing[index], scores[index], times[index]
    score[m], old_score[m], time[m], old_time[m] = stored, stored, at, at
    if data then standing.data[m], standing.old_data[m] = data[index], data[index] end
  end
end

-- Sets a loaded member's score, time and data (nil: none); a score of false takes it off the list. Writes nothing yet.
local function set(standing, m, score, time, data)
  local touched = standing.touched
  standing.score[m], standing.time[m] = score, time
  if standing.data then standing.data[m] = score and (data or '') or nil end
  touched[#touched + 1] = m
end

-- Adds to the sum of all scores; `low` may be any number that a double holds exactly.
local function add_to_total(standing, high, low)
  local stored = standing.stored_total or call('HMGET', standing.total, 'high', 'low')
  standing.stored_total = nil
  low = low + (stored[2] or 0)
  local carried = math.floor(low / LOW)
  high, low = high + (stored[1] or 0) + carried, low - carried * LOW
  call('HSET', standing.total, 'high', number_text(high), 'low', number_text(low))
end

-- Removes the members after the last one that the list keeps.
local function keep_best(standing)
  local layout = standing.layout
  if layout.keep == 0 then return end
  local bound = hides and bound_of(standing) or layout.keep
  if call('ZREMRANGEBYRANK', standing.zset, bound, -1) == 0 then return end
  if layout.dense then
    local last = call('ZRANGE', standing.zset, -1, -1, 'WITHSCORES')
    call('ZREMRANGEBYSCORE', standing.dense, '(' .. last[2], '+inf')
  end
end

-- How many members a standing has, listed or not.
local function count_members(standing)
  if standing.layout.keep > 0 then return call('HLEN', standing.hash) end
  return call('ZCARD', standing.zset)
end

-- Writes what has changed of the distinct scores. `scores`: alternately the scores that members have now, and had; false
-- for none. Each is a member under its own value, so its text must not depend on how the server formats numbers.
local function flush_distinct(standing, scores)
  local listed = {}
  for index = 1, #scores, 2 do
    local text = scores[index] and number_text(scores[index])
    if text then listed[#listed + 1], listed[#listed + 2] = text, text end
  end
  if #listed > 0 then call('ZADD', standing.dense, unpack(listed)) end
  for index = 2, #scores, 2 do
    local text = scores[index] and number_text(scores[index])
    if text and call('ZCOUNT', standing.zset, text, text) == 0 then call('ZREM', standing.dense, text) end
  end
end

-- Writes what has changed. Returns true if the standing had no members before, so that its keys are new. Scores are sent to
-- the sorted set as numbers: however they are written, as 100000000 or 1e+8, the server reads the same.
local function flush(standing)
  local touched = standing.touched
  if #touched == 0 then return false end
  note_change()
  local layout, names = standing.layout, standing.names
  local prefixed, hashed, dense, summed = layout.prefixed, layout.hashed, layout.dense, layout.summed
  local scores, times, old_scores, old_times = standing.score, standing.time, standing.old_score, standing.old_time
  local data, old_data = standing.data, standing.old_data
  local scored, packed, gone, gone_ids, count, added = {}, {}, {}, nil, 0, 0
  local high, low, distinct, followed = 0, 0, dense and {}, (hides or note_state) and {}
  local pack_member = struct.pack
  for index = 1, #touched do
    local m = touched[index]
    local score, time, old_score, old_time = scores[m], times[m], old_scores[m], old_times[m]
    if score ~= old_score or time ~= old_time or data and data[m] ~= old_data[m] then
      local id = names[m]
      if hides and old_score and not score and layout.keep > 0 then note_lost(standing, zmember(standing, m, old_time)) end
      -- A zero and another amount may have the same time.
      if old_score and (not score or prefixed and time ~= old_time and time ~= -1 - old_time) then
        gone[#gone + 1] = zmember(standing, m, old_time)
      end
      if score then
        count = count + 2
        scored[count - 1], scored[count] = score, zmember(standing, m, time)
        if hashed then packed[count - 1], packed[count] = id, pack_member(ENTRY_FORM, time, score) end
        if data then packed[count] = packed[count] .. data[m] end
        if not old_score then added = added + 1 end
      elseif old_score then
        gone_ids = gone_ids or {}
        gone_ids[#gone_ids + 1] = id
        added = added - 1
      end
      if dense and score ~= old_score then distinct[#distinct + 1], distinct[#distinct + 2] = score, old_score or false end
      if summed then
        local new_high, old_high = math.floor((score or 0) / LOW), math.floor((old_score or 0) / LOW)
        high = high + new_high - old_high
        -- Each difference alone is exact.
        low = low + ((score or 0) - new_high * LOW) - ((old_score or 0) - old_high * LOW)
      end
      if changes then capture(standing.kind, standing.zset, id) end
      if followed then followed[#followed + 1] = {m, old_score, old_time, score, time} end
      old_scores[m], old_times[m] = score, time
      if data then old_data[m] = data[m] end
    end
  end
  standing.touched = {}
  if count > 0 then call('ZADD', standing.zset, unpack(scored)) end
  if #gone > 0 then call('ZREM', standing.zset, unpack(gone)) end
  if hashed and count > 0 then call('HSET', standing.hash, unpack(packed)) end
  if hashed and gone_ids then call('HDEL', standing.hash, unpack(gone_ids)) end
  if dense then flush_distinct(standing, distinct) end
  keep_best(standing)
  local before = layout.keep == 0 and standing.stored_count
  standing.stored_count = nil
  local is_new = added > 0 and (before or count_members(standing) - added) == 0
  if summed and (high ~= 0 or low ~= 0 or is_new) then add_to_total(standing, high, low) end
  if summed and added < 0 and count_members(standing) == 0 then call('UNLINK', standing.total) end
  if hides then follow_changes(standing, followed, is_new) end
  if note_state then note_state(standing, followed, is_new) end
  return is_new
end
