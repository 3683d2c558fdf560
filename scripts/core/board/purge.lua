-- purge.lua: unlinks some keys of a board that was deleted, or of a shard that its board has moved away from. The caller
-- repeats the call until no key is left.
-- Uses: lib/slot.lua, lib/generation.lua
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1] registry: set of the keys that hold the data
-- KEYS[2] board, or head of the shard
-- ARGV[1] the generation of the board
-- ARGV[2] how many keys one call unlinks at most
-- ARGV[3] '1' if the board was deleted: then the head is unlinked too, if it still is that board's; '0' if it has moved
--         away: then the head stays, but no longer notes changes or names hides and erasures
--
-- Reply: {'MORE'} | {'DONE'} no key is left
-- Example: KEYS st:{b}:1:keys st:{b}  ARGV '1' '100' '1'  reply {'DONE'}

local REGISTRY, HEAD, generation, count, is_deleted = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
require_slot(REGISTRY)

if is_of_generation(redis.call('HGET', HEAD, 'version'), generation) then
  if is_deleted then redis.call('DEL', HEAD) else redis.call('HDEL', HEAD, 'moving', 'hides', 'hides_from', 'erased') end
end
local keys = redis.call('SPOP', REGISTRY, count)
for _, key in ipairs(keys) do redis.call('UNLINK', key) end
return {#keys < count and 'DONE' or 'MORE'}
