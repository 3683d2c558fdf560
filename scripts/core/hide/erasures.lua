-- erasures.lua: reads the last erasures of some members (lib/erasures.lua), or which members are being erased.
-- Uses: lib/keys.lua, lib/erasures.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the erasures follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   members   ids of the members that are asked for; absent: reads some of the members whose data may remain
--   count     then: how many at most
--
-- Reply: {'STALE'} | {'OK', number of the last erasure of each, text, '0' if the member was never erased, and their
--   instants, tie keys of `ties: first`, '0' likewise} |
--   {'OK', ids of members whose data may remain}
--
-- Example: ann was erased, and bob was not:
--   KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', members={'ann', 'bob'}}
--   reply {'OK', {'28080000123456', '0'}, {'4001000000000000', '0'}}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if not args.members then
  return {'OK', head[2] and redis.call('HRANDFIELD', beside_registry(REGISTRY, KIND_ERASING), args.count) or {}}
end
local erasures = head[2] and load_erasures(REGISTRY, head[2], args.members) or {}
local numbers, instants = {}, {}
for m = 1, #args.members do
  local number, instant = 0, 0
  if erasures[m] then number, instant = erasures[m].number, math.max(erasures[m].instant, 0) end
  numbers[m], instants[m] = string.format('%d', number), string.format('%d', instant)
end
return {'OK', numbers, instants}
