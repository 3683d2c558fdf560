-- restore_erasures.lua: stores erasures that a shard has lost, of members of which it has nothing (lib/erasures.lua). From then
-- on it refuses their older events. A later erasure that the shard knows stays.
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/erasures.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the erasures follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   key       for the names of these erasures; the shard gets it if it has none yet
--   erasures  list of {name, number, instant: a tie key of `ties: first`}
--
-- Reply: {'STALE'} | {'OK'} | {'OTHER'}: nothing done, the names in this shard have another key
--
-- Example: KEYS  st:{b}  st:{b}:1:keys
--   ARGV  {version='1-1', key='x', erasures={{'2c26b46b…', 28080000123456, 4001000000000000}}}  reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if head[3] and head[3] ~= args.key then return {'OTHER'} end
if head[2] then start_capture(head[2]) end
if not head[3] then begin_erasures(HEAD, REGISTRY, args.key) end

for _, lost in ipairs(args.erasures) do
  local name, number, instant = unpack(lost)
  local stored = redis.call('HGET', beside_registry(REGISTRY, KIND_ERASED), name)
  local known = stored and unpack_erasure(stored) or {number = 0, hide = ''}
  if known.number < number then
    store_erasure(REGISTRY, {
      name = name, number = number, instant = instant, changes = 0, has_data = false, hide = known.hide,
    })
  end
end
return {'OK'}
