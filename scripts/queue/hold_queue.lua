-- hold_queue.lua: stops the intake of records of the log into a shard's queue (take.lua), while the board has this version.
--
-- Takes: 1 key, 1 argument
-- KEYS[1]  head of the shard, or board: hash with `version`
-- ARGV[1]  the version
--
-- Reply: {'OK'} | {'STALE'}
-- Example: KEYS st:{b}  ARGV '1-1'  reply {'OK'}

local HEAD, version = KEYS[1], ARGV[1]

if redis.call('HGET', HEAD, 'version') ~= version then return {'STALE'} end
redis.call('HSET', HEAD, 'queue:held', version)
return {'OK'}
