-- queue_deliveries.lua: queues messages for a webhook. One that exists already, in whatever state, is left unchanged.
-- Uses: lib/deliveries.lua
--
-- KEYS[1] … KEYS[7] as in lib/deliveries.lua
-- ARGV[1] version of the webhooks that the caller read when it chose this one; '' if that does not matter
-- ARGV[2] name
-- ARGV[3] status of the deliveries
-- ARGV[4] now, ms
-- ARGV[5] how many deliveries of this status there may be
-- ARGV[6], ARGV[7] id and JSON of a delivery, and so on for more
--
-- Reply: {'OK'} | {'STALE'} a webhook has changed, or this one was deleted | {'FULL'} there are too many
-- Example: KEYS as in webhook.lua  ARGV '1795305600123456' 'site' 'pending' '1795305600123' '10000' 'msg_5f…' '{…}'
--   reply {'OK'}

if #KEYS ~= DELIVERY_KEYS or #ARGV < 7 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR queue_deliveries.lua: 7 keys, 7 arguments or more')
end
local VERSION, DELIVERIES = KEYS[2], KEYS[4]
local version, name, status, now, count_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local list = list_of(status)

if version ~= '' and redis.call('GET', VERSION) ~= version then return {'STALE'} end
if redis.call('HEXISTS', KEYS[1], name) == 0 then return {'STALE'} end
if redis.call('ZCARD', list) + (#ARGV - 5) / 2 > count_max then return {'FULL'} end
for at = 6, #ARGV, 2 do
  if redis.call('HSETNX', DELIVERIES, ARGV[at], ARGV[at + 1]) == 1 then redis.call('ZADD', list, now, ARGV[at]) end
end
refresh_due(name, tonumber(now))
return {'OK'}
