-- announce.lua: tells all instances that a board's definition has changed.
--
-- KEYS[1] the ids of all boards; KEYS[2] board ids by the sequence number of their last change; KEYS[3] the
--         last sequence number
-- ARGV[1] board id
-- ARGV[2] '1' if the board is there, '0' if it was deleted
--
-- Reply: the sequence number, an integer
-- Example: KEYS st:{boards}:live st:{boards}:changes st:{boards}:sequence  ARGV 'b' '1'  reply 1

if #KEYS ~= 3 or #ARGV ~= 2 then return redis.error_reply('ERR announce.lua: 3 keys, 2 arguments') end
local LIVE, CHANGES, SEQUENCE, id, is_live = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2] == '1'

local number = redis.call('INCR', SEQUENCE)
redis.call('ZADD', CHANGES, number, id)
if is_live then
  redis.call('ZADD', LIVE, 0, id)
else
  redis.call('ZREM', LIVE, id)
end
return number
