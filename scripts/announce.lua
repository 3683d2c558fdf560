-- announce.lua: tells all instances that a board's definition has changed.
--
-- KEYS[1] the ids of all boards; KEYS[2] board ids by the sequence number of their last change; KEYS[3] the
--         last sequence number; KEYS[4] the epoch of these numbers. A new epoch begins if the old one is lost, or if the
--         changes are forgotten because too many of them are of deleted boards. Then every instance reads all boards
-- KEYS[5] changes that were begun (begin.lua)
-- ARGV[1] board id
-- ARGV[2] '1' if the board is there, '0' if it was deleted
-- ARGV[3] the stamp of the change, which is done now; '' for none
--
-- Reply: the sequence number, an integer
-- Example: KEYS st:{boards}:live st:{boards}:changes st:{boards}:sequence st:{boards}:epoch st:{boards}:begun
--   ARGV 'b' '1' '28080000123456'  reply 1

if #KEYS ~= 5 or #ARGV ~= 3 then return redis.error_reply('ERR announce.lua: 5 keys, 3 arguments') end
local LIVE, CHANGES, SEQUENCE, EPOCH, BEGUN = unpack(KEYS)
local id, is_live, stamp = ARGV[1], ARGV[2] == '1', ARGV[3]

local DELETED_MAX = 10000

local is_crowded = redis.call('ZCARD', CHANGES) > redis.call('ZCARD', LIVE) + DELETED_MAX
if is_crowded then redis.call('UNLINK', CHANGES) end
if is_crowded or redis.call('EXISTS', EPOCH) == 0 then
  local time = redis.call('TIME')
  redis.call('SET', EPOCH, time[1] .. '.' .. time[2])
end
local number = redis.call('INCR', SEQUENCE)
redis.call('ZADD', CHANGES, number, id)
if is_live then
  redis.call('ZADD', LIVE, 0, id)
else
  redis.call('ZREM', LIVE, id)
end
if stamp ~= '' then redis.call('ZREM', BEGUN, id .. ' ' .. stamp) end
return number
