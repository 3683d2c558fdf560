-- define.lua: creates or replaces a board's definition, if it is still what the caller saw.
--
-- KEYS[1] board: hash with `version`, `definition` (JSON) and, once it has events, `used`
-- ARGV[1] the version that the caller saw, '' for none
-- ARGV[2] '1' if the change is allowed only while the board has no events, else '0'
-- ARGV[3] the new version
-- ARGV[4] the new definition, JSON
--
-- Reply: {'OK'} | {'CHANGED'} another version is there | {'USED'} the board has events
-- Example: KEYS st:{b}  ARGV '' '0' '1-1' '{…}'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 4 then return redis.error_reply('ERR define.lua: 1 key, 4 arguments') end
local BOARD, seen, only_unused, version, definition = KEYS[1], ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4]

local stored = redis.call('HMGET', BOARD, 'version', 'used')
if (stored[1] or '') ~= seen then return {'CHANGED'} end
if only_unused and stored[2] then return {'USED'} end
redis.call('HSET', BOARD, 'version', version, 'definition', definition)
return {'OK'}
