-- count_accepted.lua: adds to how many events of boards were accepted in a minute.
--
-- KEYS[1] counts of the minute: hash, `generation board` -> count
-- ARGV[1] for how long the counts are kept after the last one was added, ms
-- ARGV[2], ARGV[3] `generation board`, and the count to add; and so on for others
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:accepted:29921760  ARGV '3720000' '1 b' '12'  reply {'OK'}

if #KEYS ~= 1 or #ARGV < 3 or #ARGV % 2 ~= 1 then
  return redis.error_reply('ERR count_accepted.lua: 1 key, 3 arguments or more')
end
local COUNTS = KEYS[1]

for at = 2, #ARGV, 2 do redis.call('HINCRBY', COUNTS, ARGV[at], ARGV[at + 1]) end
redis.call('PEXPIRE', COUNTS, ARGV[1])
return {'OK'}
