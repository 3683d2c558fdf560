-- forget_order.lua: in a standing order, replaces the id of a member that is about to be erased by a keyed hash.
--
-- Takes: 3 keys, 2 arguments
-- KEYS[1] standing orders: hash; KEYS[2] the members with one: sorted set; KEYS[3] those whose order ends by itself: sorted
--         set, by ms (begin_task.lua)
-- ARGV[1] the member
-- ARGV[2] its name from now on (src/moderation/orders/store.rs)
--
-- Reply: {'OK'}, even if there is no such order
-- Example: KEYS st:{boards}:orders st:{boards}:order-members st:{boards}:orders-end  ARGV 'ann' '\30' .. '2c26b46b…'
--   reply {'OK'}

local ORDERS, MEMBERS, ENDS = unpack(KEYS)
local member, name = unpack(ARGV)

local order, ends_at = redis.call('HGET', ORDERS, member), redis.call('ZSCORE', ENDS, member)
if not order then return {'OK'} end
redis.call('HSET', ORDERS, name, order)
redis.call('ZADD', MEMBERS, 0, name)
if ends_at then redis.call('ZADD', ENDS, ends_at, name) else redis.call('ZREM', ENDS, name) end
redis.call('HDEL', ORDERS, member)
redis.call('ZREM', MEMBERS, member)
redis.call('ZREM', ENDS, member)
return {'OK'}
