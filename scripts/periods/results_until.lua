-- results_until.lua: notes that the results of all periods of a board that end up to an instant are recorded (decide.lua).
-- Uses: lib/generation.lua
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] board: hash with `version`, `results_until`
-- ARGV[1] the generation of the board, ARGV[2] the instant, ms since the epoch
--
-- Reply: {'OK'} | {'STALE'} the board was deleted
-- Example: KEYS st:{b}  ARGV '1' '1795305600000'  reply {'OK'}

local BOARD, generation, instant = KEYS[1], ARGV[1], ARGV[2]

local stored = redis.call('HMGET', BOARD, 'version', 'results_until')
if not is_of_generation(stored[1], generation) then return {'STALE'} end
if tonumber(stored[2] or -math.huge) > tonumber(instant) then instant = stored[2] end
-- Written even if unchanged: if the caller waits for replicas after this call, the replicas have everything decided so far.
redis.call('HSET', BOARD, 'results_until', instant)
return {'OK'}
