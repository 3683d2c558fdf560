-- end_delivery.lua: stores the outcome of a delivery, if the delivery is still what the caller saw.
-- Uses: lib/deliveries.lua
--
-- Takes: 7 keys, 7 arguments
-- KEYS[1] … KEYS[7] as in lib/deliveries.lua
-- ARGV[1] name
-- ARGV[2] id of the delivery
-- ARGV[3] the JSON that the caller saw
-- ARGV[4] the new JSON
-- ARGV[5] its status
-- ARGV[6] when it is due, or when it got a final status, ms
-- ARGV[7] now, ms
--
-- Reply: {'OK'} | {'CHANGED'} it is not what the caller saw, or was dropped
-- Example: KEYS as in webhook.lua  ARGV 'site' 'msg_5f…' '{…}' '{…}' 'pending' '1795305605123' '1795305600123'
--   reply {'OK'}

local DELIVERIES = KEYS[4]
local name, id, seen, new, status, at, now = unpack(ARGV)
local list = list_of(status)

if redis.call('HGET', DELIVERIES, id) ~= seen then return {'CHANGED'} end
redis.call('HSET', DELIVERIES, id, new)
for place = 5, 7 do
  if KEYS[place] ~= list then redis.call('ZREM', KEYS[place], id) end
end
redis.call('ZADD', list, at, id)
refresh_due(name, tonumber(now))
return {'OK'}
