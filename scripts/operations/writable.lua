-- writable.lua: does nothing, but is declared as a script that writes. So if Redis refuses writes, it refuses this script,
-- and says why.
--
-- Takes: no key, no argument
-- KEYS[1] none
-- ARGV[1] none
--
-- Reply: {'OK'}
-- Example: reply {'OK'}, or the error `MISCONF …` where the disk is full

return {'OK'}
