-- clear_queue.lua: says that an empty queue may be removed from the index, and raises its epoch, so that nothing is put in
-- before the index names it again. See put.lua.
-- Uses: lib/generation.lua
--
-- Takes: 4 keys, 1 argument
-- KEYS[1] board, KEYS[2] registry, KEYS[3] queue, KEYS[4] state: see lib/queue.lua
-- ARGV[1] the generation of the board
--
-- Reply: {'OK', the epoch before} | {'FULL'} the queue has entries: nothing done | {'STALE'} the board was deleted
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-state  ARGV '1'  reply {'OK', '0'}

local BOARD, REGISTRY, QUEUE, STATE = unpack(KEYS)

if not is_of_generation(redis.call('HGET', BOARD, 'version'), ARGV[1]) then return {'STALE'} end
if redis.call('XLEN', QUEUE) > 0 then return {'FULL'} end
local epoch = redis.call('HGET', STATE, 'epoch') or '0'
redis.call('SADD', REGISTRY, STATE)
redis.call('HSET', STATE, 'indexed', '0', 'epoch', string.format('%d', epoch + 1))
redis.call('HDEL', BOARD, 'queue:open')
return {'OK', epoch}
