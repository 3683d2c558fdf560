-- claim.lua: makes one instance the one that does something, for a while. A script, since the command alone is refused
-- when memory is full, and it is for what frees some.
--
-- KEYS[1] string: there as long as an instance has the claim
-- ARGV[1] for how many ms it has it, unless it is renewed (PEXPIRE)
--
-- Reply: {'OK'} | {'HELD'} by an instance already
-- Example: KEYS st:{boards}:sweeping  ARGV '10000'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 1 then return redis.error_reply('ERR claim.lua: 1 key, 1 argument') end

return {redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[1]) and 'OK' or 'HELD'}
