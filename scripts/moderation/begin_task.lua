-- begin_task.lua: begins a task for all boards. In the same step it stores the standing order that the task carries out, or
-- ends one.
--
-- Takes: 6 keys, 6 arguments
-- KEYS[1] tasks: hash, number -> JSON; KEYS[2] the unfinished tasks: sorted set, number by number
-- KEYS[3] the number of the last task
-- KEYS[4] standing orders: hash, member (or name of an erased one) -> `number hide`, the number of its task and JSON
-- KEYS[5] the members with one, and these names: sorted set, all under score 0
-- KEYS[6] those whose order ends by itself: sorted set, by ms
-- ARGV[1] the task, JSON
-- ARGV[2] the member of the standing order; '' for a task that changes none
-- ARGV[3] the hide, JSON; '' ends the member's standing order
-- ARGV[4] when the order ends by itself, ms; '' for never
-- ARGV[5] how many standing orders there may be
-- ARGV[6] the name of the member if it was erased (forget_order.lua)
--
-- Reply: {'OK', the number of the task, the member's order before, '' for none} | {'FULL'} there are too many standing
--   orders; nothing done
-- Example: KEYS st:{boards}:tasks st:{boards}:open-tasks st:{boards}:task-number st:{boards}:orders
--     st:{boards}:order-members st:{boards}:orders-end
--   ARGV '{…}' 'ann' '{…}' '' '10000' '\30' .. '2c26b46b…'  reply {'OK', 1, ''}

local TASKS, OPEN, NUMBER, ORDERS, MEMBERS, ENDS = unpack(KEYS)
local task, member, hide, ends_at, orders_max, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]

local before = member ~= '' and (redis.call('HGET', ORDERS, member) or redis.call('HGET', ORDERS, name)) or ''
if hide ~= '' and before == '' and redis.call('HLEN', ORDERS) >= orders_max then return {'FULL'} end
local number = redis.call('INCR', NUMBER)
redis.call('HSET', TASKS, number, task)
redis.call('ZADD', OPEN, number, number)
if before ~= '' then
  redis.call('HDEL', ORDERS, member, name)
  redis.call('ZREM', MEMBERS, member, name)
  redis.call('ZREM', ENDS, member, name)
end
if hide ~= '' then
  redis.call('HSET', ORDERS, member, number .. ' ' .. hide)
  redis.call('ZADD', MEMBERS, 0, member)
  if ends_at ~= '' then redis.call('ZADD', ENDS, ends_at, member) end
end
return {'OK', number, before}
