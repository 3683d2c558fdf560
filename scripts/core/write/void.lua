-- void.lua: finds out whether an event with a reservation was applied (reserve.lua). If not, the script makes sure that it
-- never is: it voids the token of the reservation, and apply.lua refuses an event with a void token.
-- Uses: lib/generation.lua
--
-- Takes: 3 keys, 3 arguments
-- KEYS[1]  board    head of the shard of the event's member
-- KEYS[2]  record   string: what is remembered of an event with this id, if one was taken; it ends with the token of the
--                   taken one
-- KEYS[3]  void     string: the mark that voids the token; expires
--
-- ARGV[1]  the generation of the board. It may have moved away from the shard: then nothing is applied there any more
-- ARGV[2]  the token
-- ARGV[3]  for how long the mark stays, in ms: longer than any call may take
--
-- Reply: {'STALE'} the board was deleted | {'APPLIED'} | {'VOID'}
-- Example: KEYS st:{b:4:1} st:{b:4:1}:1:e:x1 st:{b:4:1}:1:v:…  ARGV '1' 'fYQ3xK0aZ-1' '600000'  reply {'VOID'}

local BOARD, RECORD, MARK, generation, token, ms = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3]

local version = redis.call('HGET', BOARD, 'version')
if not is_of_generation(version, generation) then return {'STALE'} end
local record = redis.call('GET', RECORD)
if record and string.sub(record, -#token) == token then
  -- If the caller waits for replicas after this call, the replicas have it too.
  redis.call('SET', RECORD, record, 'KEEPTTL')
  return {'APPLIED'}
end
redis.call('SET', MARK, '1', 'PX', ms)
return {'VOID'}
