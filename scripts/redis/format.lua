-- format.lua: reads the format of the data that belongs to no board, and notes this release's if nothing is stored.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1] the format; KEYS[2] the last stamp (begin.lua)
-- ARGV[1] the format of this release
--
-- Reply: the format, text. If stamps exist but no format, it is the first one
-- Example: KEYS st:{boards}:format st:{boards}:stamp  ARGV '2'  reply '2'

local FORMAT, STAMP = KEYS[1], KEYS[2]

local format = redis.call('GET', FORMAT)
if format then return format end
if redis.call('EXISTS', STAMP) == 1 then return '1' end
redis.call('SET', FORMAT, ARGV[1])
return ARGV[1]
