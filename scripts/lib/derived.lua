-- lib/derived.lua: which standings of a derived series exist. Such a series is rolling, or has initial scores.
-- Uses: lib/standing.lua, lib/capture.lua
--
-- The series' state is one string, MessagePack of a list of entries, one for each of its standings that is complete or
-- being built; without an entry there is no data:
--   start     ms: where the newest period of the standing begins; identifies the entry
--   oldest    ms: where its oldest period begins
--   done      true: complete: all of its members are listed
--   zset, hash, dense, total   its keys, as in lib/standing.lua
--   used_at   ms: when it was begun or last needed, by the clock of the service
-- and with initial scores:
--   events    {zset, hash, dense, total}: the standing of the period's events
--   floor     the tie key of the period's beginning, where the layout is hashed: the time of an initial score to which
--             nothing but zeros was added
--   ends      ms: where the period ends
-- and while it is being built (advance.lua):
--   depends   ms: where the oldest period begins in which an event can change one of its terms
--   terms     list of {zset, hash, dense, total, sign (1 | -1), is_initial}: what it is the sum of
--   from      the `start` of the standing that it is derived from, nil if it is built from periods
--   walk      {term, cursor}: how far the walk over the terms has come
-- A listed member has its exact sum at every moment, even in a standing that is being built. An unlisted member has the sum
-- of the terms; in a complete standing this is zero. A member whose sum is zero is not listed. With initial scores it is
-- listed if one of the terms lists it.
-- Apart from this file only lib/sums.lua, advance.lua, initial.lua and the scripts that read know the state.

local function derived_entries(state)
  local packed = redis.call('GET', state)
  return packed and cmsgpack.unpack(packed) or {}
end

-- The entry that begins at this instant, nil if there is none, and its index in the list.
local function entry_at(entries, start)
  for index, entry in ipairs(entries) do
    if entry.start == start then return entry, index end
  end
end

-- The time and the data of a member in the sum of a period and the initial scores, from those it has in the period (nil:
-- not listed there): if it has an initial score, zeros alone leave it the time of that.
local function with_initial(floor, has_initial, time, data)
  if has_initial and (not time or time < 0) then return floor, nil end
  return time, data
end

local function drop_entry(entry)
  unlink_standing(entry)
  capture_drop(entry.zset)
end
