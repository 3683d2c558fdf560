-- note_end.lua: notes when hides of a board end, so that a job ends them then.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] the ends of hides: sorted set, `end board` by ms
-- ARGV[1] board id
-- ARGV[2] when they end, ms
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:hides-end  ARGV 'b' '1795305600000'  reply {'OK'}

local ENDS, id, ends_at = KEYS[1], ARGV[1], ARGV[2]

redis.call('ZADD', ENDS, ends_at, ends_at .. ' ' .. id)
return {'OK'}
