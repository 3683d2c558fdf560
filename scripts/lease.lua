-- lease.lua: makes one instance the one that moves a board's data, for a while.
--
-- Each time that it goes to another holder its number grows. New shards refuse what comes under a smaller number than
-- they have heard of (adopt.lua): so what the last holder had under way can't come in late. It is the time in
-- microseconds, so that it grows also where the board's own server has lost the last one.
--
-- KEYS[1] board
-- ARGV[1] the generation of the board, ARGV[2] the holder, ARGV[3] for how many ms; 0 gives it back
-- ARGV[4] how many entries the holder has copied, for those who watch
--
-- Reply: {'OK', its number} | {'HELD'} by another | {'STALE'} the board was deleted
-- Example: KEYS st:{b}  ARGV '1' 'x' '5000' '0'  reply {'OK', 1795305600123456}

if #KEYS ~= 1 or #ARGV ~= 4 then return redis.error_reply('ERR lease.lua: 1 key, 4 arguments') end
local BOARD, generation, holder, duration, count = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local stored = redis.call('HMGET', BOARD, 'version', 'lease', 'holder', 'held_until')
local version, lease, held_by, held_until = stored[1], tonumber(stored[2] or 0), stored[3], tonumber(stored[4] or 0)
if not is_of_generation(version, generation) then return {'STALE'} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if held_by ~= holder then
  if now < held_until then return {'HELD'} end
  lease = math.max(lease + 1, time[1] * 1000000 + time[2])
end
held_until = string.format('%d', now + duration)
redis.call('HSET', BOARD, 'lease', string.format('%d', lease), 'holder', holder, 'held_until', held_until, 'copied', count)
return {'OK', lease}
