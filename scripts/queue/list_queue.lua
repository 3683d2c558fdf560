-- list_queue.lua: adds the queue of a shard to the index of queues. See put.lua.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] index: sorted set, name of a queue -> the epoch under which it was added
-- ARGV[1] name, ARGV[2] epoch
--
-- Reply: {'OK', '1' if the index did not have it}
-- Example: KEYS st:{boards}:queues  ARGV '1 b' '0'  reply {'OK', '1'}

return {'OK', tostring(redis.call('ZADD', KEYS[1], 'GT', ARGV[2], ARGV[1]))}
