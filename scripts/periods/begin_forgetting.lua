-- begin_forgetting.lua: notes that the name of an erased member is about to be removed from the results of a board. Results
-- read before that can no longer be recorded (record_result.lua, revise_result.lua): they may have the name.
-- Uses: lib/generation.lua
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] board: hash with `version`, `forgetting`: a text that differs after each call
-- ARGV[1] the generation of the board, ARGV[2] a text that no other call uses
--
-- Reply: {'OK'} | {'STALE'} the board was deleted
-- Example: KEYS st:{b}  ARGV '1' '5f00a1c2d3e4f506'  reply {'OK'}

local BOARD, generation, text = KEYS[1], ARGV[1], ARGV[2]

if not is_of_generation(redis.call('HGET', BOARD, 'version'), generation) then return {'STALE'} end
redis.call('HSET', BOARD, 'forgetting', text)
return {'OK'}
