-- end_orders.lua: ends standing orders that end by themselves, once their time has come.
--
-- Takes: 3 keys, 2 arguments
-- KEYS[1] standing orders: hash; KEYS[2] the members with one: sorted set; KEYS[3] those whose order ends by itself: sorted
--         set, by ms (begin_task.lua)
-- ARGV[1] the time now, ms
-- ARGV[2] how many one call ends at most
--
-- Reply: how many were ended, an integer
-- Example: KEYS st:{boards}:orders st:{boards}:order-members st:{boards}:orders-end  ARGV '1795305600000' '100'  reply 0

local ORDERS, MEMBERS, ENDS, now, count = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

local ended = redis.call('ZRANGE', ENDS, '-inf', now, 'BYSCORE', 'LIMIT', 0, count)
for _, member in ipairs(ended) do
  redis.call('HDEL', ORDERS, member)
  redis.call('ZREM', MEMBERS, member)
  redis.call('ZREM', ENDS, member)
end
return #ended
