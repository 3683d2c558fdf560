-- revise_result.lua: replaces the result of a final period by its next revision, and notes what has changed.
-- Uses: lib/outbox.lua
--
-- KEYS[1] board; KEYS[2] registry of results; KEYS[3] results of the window: hash, period key -> result
-- KEYS[4] revisions of the window: hash, `period key␟revision` -> what has changed
-- KEYS[5] their members: hash, `period key␟revision␟index` -> the member that was hidden or brought back; the index from 1
-- KEYS[6] revised periods: hash, line of a journal -> list of the periods that were revised by it, JSON lines
-- KEYS[7] outbox
-- ARGV[1] version, as in apply.lua
-- ARGV[2] key of the period, ARGV[3] the result that the caller has seen, as it is stored, ARGV[4] the new one
-- ARGV[5] the new revision, ARGV[6] what has changed, JSON, ARGV[7] the period as a line of JSON
-- ARGV[8] what the field `forgetting` of the board was, as in record_result.lua
-- ARGV[9], ARGV[10] the id and the body of a message about it (lib/outbox.lua); '' for none
-- ARGV[11…] the lines of journals that it follows from: the line, the member that was hidden or brought back
--
-- Reply: {'STALE'}: also if the member may have been erased meanwhile, or if another result is stored by now | {'OK'}: it
--   is revised
-- Example:
--   KEYS  st:{b} st:{b}:1:results-keys st:{b}:1:results:day st:{b}:1:revisions:day st:{b}:1:revised-members:day
--         st:{b}:1:revised-periods st:{b}:1:outbox
--   ARGV  '1-1' '2026-11-21' '{"revision":1,…}' '{"revision":2,…}' '2' '{…}' '{"window":"day",…}' '' '' '' 'b␟ann' 'ann'
--   reply {'OK'}

if #KEYS ~= 7 or #ARGV < 10 or #ARGV % 2 ~= 0 then
  return redis.error_reply('ERR revise_result.lua: 7 keys, 10 arguments and two for each line')
end
local BOARD, REGISTRY, RESULTS, REVISIONS, MEMBERS, PERIODS, OUTBOX = unpack(KEYS)
local version, key, seen, result, revision, change, period, forgetting, message, body = unpack(ARGV, 1, 10)

local head = redis.call('HMGET', BOARD, 'version', 'forgetting')
if head[1] ~= version or forgetting ~= (head[2] or '') then return {'STALE'} end
if redis.call('HGET', RESULTS, key) ~= seen then return {'STALE'} end
redis.call('SADD', REGISTRY, REVISIONS, MEMBERS, PERIODS)
redis.call('HSET', RESULTS, key, result)
local field = key .. SEPARATOR .. revision
redis.call('HSET', REVISIONS, field, change)
for index = 11, #ARGV, 2 do
  local line, member = ARGV[index], ARGV[index + 1]
  redis.call('HSET', MEMBERS, field .. SEPARATOR .. (index - 9) / 2, member)
  redis.call('HSET', PERIODS, line, (redis.call('HGET', PERIODS, line) or '') .. period .. '\n')
end
if message ~= '' then post_message(REGISTRY, OUTBOX, message, body) end
return {'OK'}
