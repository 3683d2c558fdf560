-- writable.lua: does nothing, but is declared as a script that writes. So if Redis refuses writes, it refuses this script,
-- and says why.
--
-- KEYS[1] none
-- ARGV[1] none
--
-- Reply: {'OK'}
-- Example: reply {'OK'}, or the error `MISCONF …` where the disk is full

if #KEYS ~= 0 or #ARGV ~= 0 then return redis.error_reply('ERR writable.lua: no key, no argument') end

return {'OK'}
