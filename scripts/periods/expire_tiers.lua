-- expire_tiers.lua: lets a shard's data of the tiers of a league's period expire at an instant: how many of their seats
-- were given out (take_seat.lua).
--
-- Takes: 2 keys or more, 3 arguments
-- KEYS[1] head of the shard; KEYS[2…] the keys
-- ARGV[1] version, as in apply.lua; ARGV[2] the instant, ARGV[3] now: ms since the epoch
--
-- Reply: {'STALE'} | {'OK'}
-- Example: KEYS st:{b:16:7} st:{b:16:7}:1:tiers:week:2026-11-16/1 st:{b:16:7}:1:taking:week:2026-11-16/1
--   ARGV '1-1' '1795910400000' '1795305600123'  reply {'OK'}

if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return {'STALE'} end
-- In terms of the server's clock.
local time = redis.call('TIME')
local expires = string.format('%d', ARGV[2] + time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3])
for index = 2, #KEYS do redis.call('PEXPIREAT', KEYS[index], expires) end
return {'OK'}
