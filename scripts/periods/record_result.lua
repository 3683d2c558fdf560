-- record_result.lua: records the result of a final period, or replaces the one that the caller has seen.
-- Uses: lib/outbox.lua
--
-- KEYS[1] board; KEYS[2] registry of results
-- KEYS[3] results of the window: hash, period key -> result; KEYS[4] the keys of these periods: sorted set; KEYS[5] outbox
-- ARGV[1] version, as in apply.lua
-- ARGV[2] key of the period
-- ARGV[3] the result that the caller has seen, as it is stored; '' for none
-- ARGV[4] the result, JSON (src/periods/results/store.rs)
-- ARGV[5] the field `forgetting` of the board, from before the caller read any name, '' for none (begin_forgetting.lua);
--         '*': all names come from the result that the caller has seen
-- ARGV[6…] of each message about it: its id and its body (lib/outbox.lua)
--
-- Reply: {'STALE'}: also if the result may name a member that was erased meanwhile, or if the stored one is not what the
--   caller has seen | {'OK'}: it is recorded, by this call or before; or the caller has seen none, and there is one
-- Example:
--   KEYS  st:{b} st:{b}:1:results-keys st:{b}:1:results:day st:{b}:1:final-periods:day st:{b}:1:outbox
--   ARGV  '1-1' '2026-11-21' '' '{"total":3,…}' '' 'msg_1' '{"type":"period.final",…}'
--   reply {'OK'}

if #KEYS ~= 5 or #ARGV < 5 or #ARGV % 2 ~= 1 then
  return redis.error_reply('ERR record_result.lua: 5 keys, 5 arguments and two for each message')
end
local BOARD, REGISTRY, RESULTS, PERIODS, OUTBOX = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local version, key, seen, result, forgetting = unpack(ARGV, 1, 5)

local head = redis.call('HMGET', BOARD, 'version', 'forgetting')
if head[1] ~= version or (forgetting ~= '*' and forgetting ~= (head[2] or '')) then return {'STALE'} end
local stored = redis.call('HGET', RESULTS, key) or ''
if stored ~= seen then return {(seen == '' or stored == result) and 'OK' or 'STALE'} end
redis.call('SADD', REGISTRY, RESULTS, PERIODS)
redis.call('HSET', RESULTS, key, result)
redis.call('ZADD', PERIODS, 0, key)
for index = 6, #ARGV, 2 do post_message(REGISTRY, OUTBOX, ARGV[index], ARGV[index + 1]) end
return {'OK'}
