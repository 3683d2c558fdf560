-- note_lines.lua: notes lines of a shard's journal of hides for which the results of a board have to be revised.
-- Uses: lib/generation.lua
--
-- KEYS[1] board; KEYS[2] registry of results
-- KEYS[3] revised: hash, tag of a shard -> number of the last line that was noted
-- KEYS[4] to revise: sorted set, `tag␟member` -> number of the line
-- ARGV[1] generation of the board
-- ARGV[2] tag of the shard; ARGV[3] the number of the last line that the caller knows to be noted, '' for none
-- ARGV[4] the number of the last line that this call notes
-- ARGV[5…] the lines between: member, number
--
-- Reply: {'STALE'} the board was deleted | {'OK', the number of the last line that is noted now}: if it is not ARGV[4],
--   another caller has noted lines since, and nothing is done
-- Example: ann was hidden:
--   KEYS st:{b} st:{b}:1:results-keys st:{b}:1:revised st:{b}:1:to-revise  ARGV '1' 'b' '0' '1' 'ann' '1'
--   reply {'OK', '1'}

if #KEYS ~= 4 or #ARGV < 4 or #ARGV % 2 ~= 0 then
  return redis.error_reply('ERR note_lines.lua: 4 keys, 4 arguments and two for each line')
end
local BOARD, REGISTRY, REVISED, TO_REVISE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local generation, tag, known, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not is_of_generation(redis.call('HGET', BOARD, 'version'), generation) then return {'STALE'} end
local noted = redis.call('HGET', REVISED, tag) or ''
if noted ~= known then return {'OK', noted} end
redis.call('SADD', REGISTRY, REVISED, TO_REVISE)
redis.call('HSET', REVISED, tag, last)
for index = 5, #ARGV, 2 do redis.call('ZADD', TO_REVISE, ARGV[index + 1], tag .. SEPARATOR .. ARGV[index]) end
return {'OK', last}
