-- journal.lua: reads which members were hidden and brought back in a shard, in order (lib/hides.lua).
-- Uses: lib/keys.lua
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the hides follow
-- ARGV[1]  the version of the board, as in apply.lua; '' for any: the shard may have been closed
-- ARGV[2]  the number of the line after which the caller goes on
-- ARGV[3]  how many lines at most
--
-- Reply: {'STALE'} | {'OK', the number of the last line that exists, member, number of its line, what it says, …}:
--   'hidden' | 'back' | 'erasing': the member is being erased
--
-- Example: ann was hidden:
--   KEYS st:{b} st:{b}:1:keys  ARGV '1-1' '0' '300'  reply {'OK', '1', 'ann', '1', 'hidden'}

local HEAD, REGISTRY, version, after, count = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local head = redis.call('HMGET', HEAD, 'version', 'hides')
if version ~= '' and head[1] ~= version then return {'STALE'} end
local reply = {'OK', head[2] or '0'}
local lines = redis.call('ZRANGE', beside_registry(REGISTRY, KIND_HIDE_JOURNAL), '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0,
  count, 'WITHSCORES')
for index = 1, #lines, 2 do
  local member, number = lines[index], lines[index + 1]
  local says = 'back'
  if redis.call('HEXISTS', beside_registry(REGISTRY, KIND_ERASING), member) == 1 then
    says = 'erasing'
  elseif number % 2 == 1 then
    says = 'hidden'
  end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = member, number, says
end
return reply
