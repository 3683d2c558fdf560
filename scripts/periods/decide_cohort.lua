-- decide_cohort.lua: records how a cohort of a league was decided (src/domain/league/decision.rs), unless that is recorded.
-- The first record stays, and all readers use it.
-- Uses: lib/slot.lua
--
-- The record describes the standing as it is now: no member can be added and no score can change, since the barrier of the
-- shard is not before the end of the period (`final_until` of the head, see close_shard.lua), and no member was hidden,
-- brought back or erased since the caller has read it.
--
-- KEYS[1] head of the shard; KEYS[2] registry; KEYS[3] sorted set of the cohort's standing
-- KEYS[4] the record: hash, '' -> what all members share, member -> its outcome; JSON. It expires with the standing
-- ARGV[1] version, as in apply.lua
-- ARGV[2] when the period ends, ms since the epoch
-- ARGV[3] the number of the last hide (`hides` of the head) and ARGV[4] how many lines had lost their member (`anonymised`)
--         before the caller has read the standing; '0' for none
-- ARGV[5…] the fields of the record and their values, for at least one member
--
-- Reply: {'STALE'} | {'OPEN'} the barrier is before the end | {'MODERATED'} read the standing again | {'OK'} it is recorded
-- Example: KEYS st:{b:16:7} st:{b:16:7}:1:keys st:{b:16:7}:1:s:week:2026-11-16/1-17
--   st:{b:16:7}:1:s:week:2026-11-16/1-17:decided
--   ARGV '1-1' '1795305600000' '0' '0' '' '{"counted":1,…}' 'ann' '{"position":1,…}'  reply {'OK'}

if #KEYS ~= 4 or #ARGV < 8 or #ARGV % 2 ~= 0 then
  return redis.error_reply('ERR decide_cohort.lua: 4 keys, 4 arguments and two for each field, 2 fields or more')
end
local HEAD, REGISTRY, ZSET, DECIDED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
require_slot(HEAD)

local head = redis.call('HMGET', HEAD, 'version', 'final_until', 'hides', 'anonymised')
if head[1] ~= ARGV[1] then return {'STALE'} end
if redis.call('EXISTS', DECIDED) == 1 then return {'OK'} end
if not head[2] or tonumber(head[2]) < tonumber(ARGV[2]) then return {'OPEN'} end
if (head[3] or '0') ~= ARGV[3] or (head[4] or '0') ~= ARGV[4] then return {'MODERATED'} end

redis.call('SADD', REGISTRY, DECIDED)
for index = 5, #ARGV, 2 do redis.call('HSET', DECIDED, ARGV[index], ARGV[index + 1]) end
local expires = redis.call('PEXPIRETIME', ZSET)
if expires == -2 then error('invariant: a cohort that is decided has a standing') end
if expires > 0 then redis.call('PEXPIREAT', DECIDED, string.format('%d', expires)) end
return {'OK'}
