-- lib/reading.lua: opening a standing for a read, and finding a member in it.

-- The standing at KEYS[first]; nil if it belongs to a rolling window, whose state is KEYS[state], and is
-- not complete. `state` is 0 for the standing of a period. `start` is where its newest period begins, in ms.
local function open(layout, first, state, start)
  if state > 0 then
    local entry = entry_at(rolling_entries(KEYS[state]), start)
    if not (entry and entry.done) then return nil end
  end
  return standing_at(layout, first)
end

-- place (from 0), score (text), sorted-set member; nil where the member is not listed.
local function find(layout, standing, id)
  local member = id
  if layout.prefixed then
    local packed = call('HGET', standing.hash, id)
    if not packed then return nil end
    member = string.sub(packed, 1, 6) .. id
  end
  local place = call('ZRANK', standing.zset, member)
  if not place then return nil end
  return place, call('ZSCORE', standing.zset, member), member
end

-- The rank of an entry at this place with this score.
local function rank_at(ranking, standing, place, score)
  if ranking == 'ordinal' then return place + 1 end
  return count_ahead(standing, ranking, score) + 1
end

-- A part of the list: the rank of its first entry (0 if it is empty), and sorted-set member and score of each in turn.
local function part(ranking, standing, from, to)
  local flat = call('ZRANGE', standing.zset, from, to, 'WITHSCORES')
  if #flat == 0 then return 0, flat end
  return rank_at(ranking, standing, from, flat[2]), flat
end
