-- export_voters.lua: reads the voters of one shard of a board in some periods, united into one HyperLogLog.
--
-- Takes: 2 keys or more, no argument
-- KEYS[1]  head of the shard
-- KEYS[2]  a scratch key, which exists only during the call
-- KEYS[3…] voters (HyperLogLog) of the periods
-- ARGV[1] none
--
-- Reply: the bytes of a HyperLogLog, empty if there are no voters
-- Example: two days of a shard:
--   KEYS  st:{b:16:3}  st:{b:16:3}:1:scratch  st:{b:16:3}:1:voters:day:2026-11-20  st:{b:16:3}:1:voters:day:2026-11-21
--   reply 'HYLL…'

local SCRATCH = KEYS[2]

if #KEYS == 3 then return redis.call('GET', KEYS[3]) or '' end
redis.call('PFMERGE', SCRATCH, unpack(KEYS, 3))
local voters = redis.call('GET', SCRATCH)
redis.call('DEL', SCRATCH)
return voters
