-- lib/periods.lua: which periods have data: for each unit an index of their keys, a sorted set whose scores are all zero,
-- so that it is ordered by time.
-- Uses: lib/keys.lua
-- Loader: load_periods
--
-- A period is noted with the first entry of its standing, and stays noted until some time after that is deleted. So readers
-- of the index check that the standing exists.

-- The index in which a standing is noted, and the key of its period; nil if it belongs to no unit.
local function index_of(registry, zset)
  local prefix = beside_registry(registry, '')
  local series, period = string.match(string.sub(zset, #prefix + 1), '^' .. KIND_STANDING .. ':(%l+@?%d*):(.+)$')
  return series and prefix .. KIND_PERIODS .. ':' .. series, period
end

-- The sorted set of the standing of a period that is noted in an index.
local function zset_of_period(index, period)
  local prefix, series = string.match(index, '^(.*:)' .. KIND_PERIODS .. '(:[^:]*)$')
  return prefix .. KIND_STANDING .. series .. ':' .. period
end

-- Notes the period of a standing that has entries. It forgets up to two of the oldest whose standings no longer exist, so
-- that the index does not grow without bound.
local function note_period(registry, zset)
  local index, period = index_of(registry, zset)
  if not index or redis.call('ZADD', index, 0, period) == 0 then return end
  redis.call('SADD', registry, index)
  for _, oldest in ipairs(redis.call('ZRANGE', index, 0, 1)) do
    if redis.call('EXISTS', zset_of_period(index, oldest)) == 0 then redis.call('ZREM', index, oldest) end
  end
end
