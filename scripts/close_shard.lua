-- close_shard.lua: raises the barrier of a shard: the field `closed_until` of its head. The shard takes no event any more whose
-- `at` lies before it, whoever has planned the event, and whenever (apply.lua). A barrier never falls.
--
-- Only a closing calls this. A move copies the barrier to the new shards before it opens them (copy_in.lua). So no later sharding
-- takes what this one refuses.
--
-- KEYS[1]  head of the shard, or board: hash with `version`
-- ARGV[1]  the version, as in apply.lua
-- ARGV[2]  the barrier, in ms since the epoch
--
-- Reply: {'STALE'} | {'OK'}: the barrier is as high, or higher
-- Example: KEYS st:{b}  ARGV '1-1' '1795305600000'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 2 then return redis.error_reply('ERR close_shard.lua: 1 key, 2 arguments') end
local HEAD, version, barrier = KEYS[1], ARGV[1], ARGV[2]

local head = redis.call('HMGET', HEAD, 'version', 'closed_until')
if head[1] ~= version then return {'STALE'} end
local known = head[2]
if known and tonumber(known) > tonumber(barrier) then barrier = known end
-- Also if it is the same: if the caller waits for replicas after this call, the replicas have it.
redis.call('HSET', HEAD, 'closed_until', barrier)
return {'OK'}
