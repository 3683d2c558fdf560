-- lib/past_initial.lua: the initial scores as of when periods were closed.
-- Uses: lib/keys.lua, lib/capture.lua
-- A closed period still counts the initial scores that there were when the barrier of the shard passed its end
-- (close_shard.lua). So a change of an initial score keeps the one before, once for each barrier:
--   past-initial   hash: member -> MessagePack of a list {instant, score, instant, score, …}, ascending: up to this instant
--                  (ms) the member had this stored score, false for none
-- In a period that ends at E, the score of a member is the one of the first instant that is not before E, or without such an
-- instant its current initial score.

local function past_initial_key(registry)
  return beside_registry(registry, KIND_PAST_INITIAL)
end

-- Keeps the scores (false: none) that these members had up to the barrier, ms. Scores that only periods need that end
-- before `kept_from`, ms, are forgotten.
local function keep_past(registry, barrier, kept_from, ids, scores)
  if #ids == 0 then return end
  local key, changed = past_initial_key(registry), {}
  for index, packed in ipairs(redis.call('HMGET', key, unpack(ids))) do
    local past, kept = packed and cmsgpack.unpack(packed) or {}, {}
    -- Only the first change after a barrier is kept.
    if #past == 0 or past[#past - 1] < barrier then
      for place = 1, #past, 2 do
        if past[place] >= kept_from then kept[#kept + 1], kept[#kept + 2] = past[place], past[place + 1] end
      end
      kept[#kept + 1], kept[#kept + 2] = barrier, scores[index]
      changed[#changed + 1], changed[#changed + 2] = ids[index], cmsgpack.pack(kept)
      capture(KIND_PAST_INITIAL, key, ids[index])
    end
  end
  if #changed == 0 then return end
  redis.call('HSET', key, unpack(changed))
  redis.call('SADD', registry, key)
end

-- The initial scores of these members in a period that ends at this instant, ms; `scores` are the current ones.
local function scores_in_past(registry, ends, ids, scores)
  local found = {}
  for index, packed in ipairs(redis.call('HMGET', past_initial_key(registry), unpack(ids))) do
    found[index] = scores[index]
    local past = packed and cmsgpack.unpack(packed) or {}
    for place = #past - 1, 1, -2 do
      if past[place] >= ends then found[index] = past[place + 1] end
    end
  end
  return found
end
