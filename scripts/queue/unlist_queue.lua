-- unlist_queue.lua: removes the queue of a shard from the index of queues, unless added under a later epoch. See put.lua.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] index: see list_queue.lua
-- ARGV[1] name, ARGV[2] the last epoch that counts
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:queues  ARGV '1 b' '0'  reply {'OK'}

local INDEX, name, last = KEYS[1], ARGV[1], tonumber(ARGV[2])

local epoch = redis.call('ZSCORE', INDEX, name)
if epoch and tonumber(epoch) <= last then redis.call('ZREM', INDEX, name) end
return {'OK'}
