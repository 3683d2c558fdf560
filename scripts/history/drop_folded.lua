-- drop_folded.lua: unlinks the folded entries of a board that keeps no events any more, in bounded steps (lib/history.lua). The
-- caller repeats the call with the cursor of the reply until that is '0'.
-- Uses: lib/slot.lua, lib/keys.lua, lib/cursor.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map: version; count: about how many names of the registry one call looks at
-- ARGV[2]  the cursor, '0' at the beginning
--
-- Reply: {'STALE'} | {'OK', cursor, text}
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', count=300} '0'  reply {'OK', '0'}

local HEAD, REGISTRY, cursor = KEYS[1], KEYS[2], ARGV[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
if redis.call('HGET', HEAD, 'version') ~= args.version then return {'STALE'} end
local names, next_cursor = scan_on('SSCAN', REGISTRY, cursor, args.count)
local beginning, ending = beside_registry(REGISTRY, KIND_STANDING) .. ':', ':' .. KIND_FOLDED
for _, key in ipairs(names) do
  if string.sub(key, 1, #beginning) == beginning and string.sub(key, -#ending) == ending then
    redis.call('UNLINK', key)
    redis.call('SREM', REGISTRY, key)
  end
end
if next_cursor == '0' then redis.call('HDEL', HEAD, 'events_from') end
return {'OK', next_cursor}
