-- hidden.lua: reads which members are hidden in a shard (lib/hides.lua).
-- Uses: lib/keys.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the hides follow
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   members   ids of the members that are asked for; absent: all are listed, in the order of their bytes:
--   after     after this id, '' for the beginning
--   count     how many at most
--
-- Reply: {'STALE'} | {'OK', how many are hidden, {member, hide as it is stored, …}: of those asked for that are hidden}
--
-- Example: ann alone is hidden:
--   KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', after='', count=100}  reply {'OK', 1, {'ann', …}}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])

if redis.call('HGET', HEAD, 'version') ~= args.version then return {'STALE'} end

local HIDDEN = beside_registry(REGISTRY, KIND_HIDDEN)
local members = args.members
  or redis.call('ZRANGE', HIDDEN, args.after == '' and '-' or '(' .. args.after, '+', 'BYLEX', 'LIMIT', 0, args.count)
local found = {}
if #members > 0 then
  for index, hide in ipairs(redis.call('HMGET', beside_registry(REGISTRY, KIND_HIDES), unpack(members))) do
    if hide then
      found[#found + 1], found[#found + 2] = members[index], hide
    end
  end
end
return {'OK', redis.call('ZCARD', HIDDEN), found}
