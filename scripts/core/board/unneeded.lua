-- unneeded.lua: marks data that is to be unlinked once nothing needs it. It is a script because Redis refuses the plain
-- command when its memory is full, and unlinking data is how memory is freed.
--
-- Takes: 1 key, 1 argument
-- KEYS[1] what is to be unlinked: set
-- ARGV[1] the data's name
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:unneeded  ARGV '1 b 1 deleted'  reply {'OK'}

redis.call('SADD', KEYS[1], ARGV[1])
return {'OK'}
