-- note.lua: notes that a board has something for a job. It replaces the board's last note, so that a board has one, however
-- often it is noted. It is a script because Redis refuses the plain command when its memory is full.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] notes: hash, `generation board` -> the name of the note
-- ARGV[1] `generation board`, ARGV[2] a name that no other note has
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:outboxes  ARGV '1 b' '5f00c2a9be41d37e'  reply {'OK'}

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {'OK'}
