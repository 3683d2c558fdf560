-- delete.lua: deletes a board's definition, if it is still the one that the caller saw. From then on no script reads or
-- writes the board's data; purge.lua and sweep.lua unlink it.
--
-- KEYS[1] board
-- ARGV[1] the version that the caller saw
--
-- Reply: {'OK'} | {'CHANGED'}
-- Example: KEYS st:{b}  ARGV '1-3'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 1 then return redis.error_reply('ERR delete.lua: 1 key, 1 argument') end
local BOARD, seen = KEYS[1], ARGV[1]

if redis.call('HGET', BOARD, 'version') ~= seen then return {'CHANGED'} end
redis.call('DEL', BOARD)
return {'OK'}
