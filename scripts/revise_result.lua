-- revise_result.lua: replaces the result of a final period by its next revision, and notes what has changed.
--
-- KEYS[1] board; KEYS[2] registry of results; KEYS[3] results of the window: hash, period key -> result
-- KEYS[4] revisions of the window: hash, `period key␟revision` -> what has changed
-- KEYS[5] their members: hash, `period key␟revision` -> who was hidden or brought back
-- KEYS[6] revised periods: hash, line of a journal -> list of the periods that were revised by it, JSON lines
-- ARGV[1] version, as in apply.lua
-- ARGV[2] key of the period, ARGV[3] the result that the caller has seen, as it is stored, ARGV[4] the new one
-- ARGV[5] the new revision, ARGV[6] what has changed, JSON, ARGV[7] who was hidden or brought back
-- ARGV[8] the line of the journal, ARGV[9] the period as a line of JSON
-- ARGV[10] what the field `forgetting` of the board was, as in record_result.lua
--
-- Reply: {'STALE'}: also if the member may have been erased meanwhile | {'SEEN'}: it is revised | {'OTHER'}: another result is
--   stored by now, and nothing was done
-- Example:
--   KEYS  st:{b} st:{b}:1:results-keys st:{b}:1:results:day st:{b}:1:revisions:day st:{b}:1:revised-members:day
--         st:{b}:1:revised-periods
--   ARGV  '1-1' '2026-11-21' '{"revision":1,…}' '{"revision":2,…}' '2' '{…}' 'ann' 'b␟ann' '{"window":"day",…}' ''
--   reply {'SEEN'}

if #KEYS ~= 6 or #ARGV ~= 10 then return redis.error_reply('ERR revise_result.lua: 6 keys, 10 arguments') end
local BOARD, REGISTRY, RESULTS, REVISIONS, MEMBERS, PERIODS = unpack(KEYS)
local version, key, seen, result, revision, change, member, line, period, forgetting = unpack(ARGV)

local head = redis.call('HMGET', BOARD, 'version', 'forgetting')
if head[1] ~= version or forgetting ~= (head[2] or '') then return {'STALE'} end
if redis.call('HGET', RESULTS, key) ~= seen then return {'OTHER'} end
redis.call('SADD', REGISTRY, REVISIONS, MEMBERS, PERIODS)
redis.call('HSET', RESULTS, key, result)
local field = key .. SEPARATOR .. revision
redis.call('HSET', REVISIONS, field, change)
redis.call('HSET', MEMBERS, field, member)
redis.call('HSET', PERIODS, line, (redis.call('HGET', PERIODS, line) or '') .. period .. '\n')
return {'SEEN'}
