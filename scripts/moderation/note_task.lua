-- note_task.lua: notes how far a task for all boards has come, or that it has ended, if it is still what the caller saw. It
-- forgets tasks that ended long ago.
--
-- Takes: 3 keys, 5 arguments
-- KEYS[1] tasks: hash, number -> JSON; KEYS[2] the unfinished tasks: sorted set, number by number
-- KEYS[3] the others: sorted set, number by the ms at which it ended
-- ARGV[1] the number of the task, ARGV[2] the JSON that the caller saw, ARGV[3] the new JSON
-- ARGV[4] when it ended, ms; '' if it is unfinished
-- ARGV[5] tasks that ended before this, ms, are forgotten
--
-- Reply: {'OK'} | {'CHANGED'} it is not what the caller saw
-- Example: KEYS st:{boards}:tasks st:{boards}:open-tasks st:{boards}:ended-tasks
--   ARGV '1' '{…}' '{…}' '' '1795305600000'  reply {'OK'}

local TASKS, OPEN, ENDED = unpack(KEYS)
local number, seen, new, ended_at, forgotten_before = unpack(ARGV)
local FORGOTTEN_MAX = 100

if redis.call('HGET', TASKS, number) ~= seen then return {'CHANGED'} end
redis.call('HSET', TASKS, number, new)
if ended_at ~= '' then
  redis.call('ZREM', OPEN, number)
  redis.call('ZADD', ENDED, ended_at, number)
end
local old = redis.call('ZRANGE', ENDED, '-inf', '(' .. forgotten_before, 'BYSCORE', 'LIMIT', 0, FORGOTTEN_MAX)
for _, other in ipairs(old) do
  redis.call('HDEL', TASKS, other)
  redis.call('ZREM', ENDED, other)
end
return {'OK'}
