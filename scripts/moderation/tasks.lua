-- tasks.lua: lists tasks for all boards: the unfinished ones in the order in which they were begun, or the others, latest
-- end first.
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1] tasks: hash, number -> JSON
-- KEYS[2] the numbers of those that are asked for: sorted set, by themselves, or by the ms at which each ended
-- ARGV[1] '1' for those that have ended
-- ARGV[2] the list begins after this number; '' for its beginning
-- ARGV[3] how many are listed
--
-- Reply: {number, JSON, …}. Nothing if ARGV[2] is an ended task that is forgotten: those after it ended before it.
-- Example: KEYS st:{boards}:tasks st:{boards}:open-tasks  ARGV '' '' '20'  reply {'1', '{…}'}

local TASKS, LIST = unpack(KEYS)
local has_ended, behind, count = ARGV[1] == '1', ARGV[2], tonumber(ARGV[3])

local first = 0
if behind ~= '' and has_ended then
  local rank = redis.call('ZREVRANK', LIST, behind)
  if not rank then return {} end
  first = rank + 1
elseif behind ~= '' then
  first = redis.call('ZCOUNT', LIST, '-inf', behind)
end
local last = first + count - 1
local numbers = has_ended and redis.call('ZRANGE', LIST, first, last, 'REV') or redis.call('ZRANGE', LIST, first, last)
local reply = {}
for _, number in ipairs(numbers) do
  local task = redis.call('HGET', TASKS, number)
  if task then reply[#reply + 1], reply[#reply + 2] = number, task end
end
return reply
