-- begin_task.lua: begins a task for all boards. In the same step it gives the standing order that the task carries out, or
-- ends one.
--
-- KEYS[1] tasks: hash, number -> JSON; KEYS[2] the tasks that are not at their end: sorted set, number by number
-- KEYS[3] the number of the last task
-- KEYS[4] standing orders: hash, member -> `number hide`, the number of its task and JSON; KEYS[5] the members with one: sorted
--         set, all under score 0; KEYS[6] those whose order ends by itself: sorted set, by ms
-- ARGV[1] the task, JSON
-- ARGV[2] the member of the standing order; '' for a task that changes none
-- ARGV[3] the hide, JSON; '' ends the member's standing order
-- ARGV[4] when the order ends by itself, ms; '' for never
-- ARGV[5] how many standing orders there may be
--
-- Reply: {'OK', the number of the task} | {'FULL'} there are too many standing orders; nothing is done
-- Example: KEYS st:{boards}:tasks st:{boards}:open-tasks st:{boards}:task-number st:{boards}:orders
--     st:{boards}:order-members st:{boards}:orders-end
--   ARGV '{…}' 'ann' '{…}' '' '10000'  reply {'OK', 1}

if #KEYS ~= 6 or #ARGV ~= 5 then return redis.error_reply('ERR begin_task.lua: 6 keys, 5 arguments') end
local TASKS, OPEN, NUMBER, ORDERS, MEMBERS, ENDS = unpack(KEYS)
local task, member, hide, ends_at, orders_max = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local is_new = hide ~= '' and redis.call('HEXISTS', ORDERS, member) == 0
if is_new and redis.call('HLEN', ORDERS) >= orders_max then return {'FULL'} end
local number = redis.call('INCR', NUMBER)
redis.call('HSET', TASKS, number, task)
redis.call('ZADD', OPEN, number, number)
if member ~= '' then
  redis.call('ZREM', ENDS, member)
  if hide == '' then
    redis.call('HDEL', ORDERS, member)
    redis.call('ZREM', MEMBERS, member)
  else
    redis.call('HSET', ORDERS, member, number .. ' ' .. hide)
    redis.call('ZADD', MEMBERS, 0, member)
    if ends_at ~= '' then redis.call('ZADD', ENDS, ends_at, member) end
  end
end
return {'OK', number}
