-- lease.lua: gives one instance the lease of some work for a while.
-- Uses: lib/generation.lua
--
-- Each time the lease goes to another holder, its number grows. Data that was written under a greater number refuses calls
-- under a smaller one (copy_in.lua). So a late call of the last holder can't change anything. The number is the time in
-- microseconds, so it grows even if the server has lost the last one.
--
-- Takes: 1 key, 5 arguments
-- KEYS[1] hash with the leases: a board, or what all boards share
-- ARGV[1] the generation of the board; '' where it is not a board
-- ARGV[2] name of the work, ARGV[3] holder, ARGV[4] for how many ms; 0 gives the lease back
-- ARGV[5] position: how far the work has come; '' at its end
--
-- Reply: {'OK', the number, the position that was stored, '' for none} | {'HELD'} by another | {'STALE'} the board was
--   deleted
-- Example: KEYS st:{b}  ARGV '1' 'move' 'x' '5000' '70'  reply {'OK', 1795305600123456, '20'}

local LEASES, generation, name, holder, duration, position = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local NUMBER, HOLDER, UNTIL, POSITION = name .. ':number', name .. ':holder', name .. ':until', name .. ':position'

local stored = redis.call('HMGET', LEASES, 'version', NUMBER, HOLDER, UNTIL, POSITION)
local version, number, held_by, held_until = stored[1], tonumber(stored[2] or 0), stored[3], tonumber(stored[4] or 0)
if generation ~= '' and not is_of_generation(version, generation) then return {'STALE'} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if held_by ~= holder then
  if now < held_until then return {'HELD'} end
  number = math.max(number + 1, time[1] * 1000000 + time[2])
  position = stored[5] or ''
end
held_until = string.format('%d', now + duration)
redis.call('HSET', LEASES, NUMBER, string.format('%d', number), HOLDER, holder, UNTIL, held_until, POSITION, position)
return {'OK', number, stored[5] or ''}
