-- forget_note.lua: removes the note of a board for a job, unless the board was noted again since the job read the note.
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] notes: see note.lua
-- ARGV[1] `generation board`, ARGV[2] the name of the note
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:outboxes  ARGV '1 b' '5f00c2a9be41d37e'  reply {'OK'}

if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return {'OK'}
