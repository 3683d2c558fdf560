-- unneeded.lua: marks data that is to be unlinked once nothing needs it. It is a script because Redis refuses the plain
-- command when its memory is full, and unlinking data is how memory is freed.
--
-- KEYS[1] what is to be unlinked: set
-- ARGV[1] the data's name
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:unneeded  ARGV '1 b 1 deleted'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 1 then return redis.error_reply('ERR unneeded.lua: 1 key, 1 argument') end

redis.call('SADD', KEYS[1], ARGV[1])
return {'OK'}
