-- purge.lua: unlinks some keys of a board, or of one of its shards, that was deleted or has moved away; called again
-- until none is left.
--
-- KEYS[1] registry: set of the keys that the data lies in
-- KEYS[2] board, or head of the shard: it goes too, if it is still that of the deleted board; left out where it stays
-- ARGV[1] the generation of the deleted board
-- ARGV[2] how many keys at the most
--
-- Reply: {'MORE'} | {'DONE'} none is left
-- Example: KEYS st:{b}:1:keys st:{b}  ARGV '1' '100'  reply {'DONE'}

if #KEYS < 1 or #KEYS > 2 or #ARGV ~= 2 then return redis.error_reply('ERR purge.lua: 1 or 2 keys, 2 arguments') end
local REGISTRY, HEAD, generation, count = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
require_slot(REGISTRY)

local version = HEAD and redis.call('HGET', HEAD, 'version')
if is_of_generation(version, generation) then redis.call('DEL', HEAD) end
local keys = redis.call('SPOP', REGISTRY, count)
for _, key in ipairs(keys) do redis.call('UNLINK', key) end
return {#keys < count and 'DONE' or 'MORE'}
