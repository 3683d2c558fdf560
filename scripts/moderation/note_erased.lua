-- note_erased.lua: notes that members were erased on all boards. Of each member the last erasure is kept.
--
-- Takes: 1 key, 1 argument
-- KEYS[1] the members erased on all boards: hash, name (lib/erasures.lua) -> `number instant`
-- ARGV[1] MessagePack of a map: erasures: list of {name, number: a stamp, instant: microseconds since the epoch}
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:erased
--   ARGV {erasures={{'2c26b46b…', 28080000123456, 1795305600123456}}}  reply {'OK'}

local ERASED = KEYS[1]

for _, erased in ipairs(cmsgpack.unpack(ARGV[1]).erasures) do
  local name, number, instant = unpack(erased)
  local known = string.match(redis.call('HGET', ERASED, name) or '0 0', '^%d+')
  if tonumber(known) < number then redis.call('HSET', ERASED, name, string.format('%d %d', number, instant)) end
end
return {'OK'}
