-- keep_hides.lua: stores hides for erased members on a new board, to hold once they have data there (lib/erasures.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/erasures.lua
--
-- The ids of these members are no longer known, so neither is the shard of the board that they will be in: the hides are
-- stored in each shard. A hide that is stored there already stays.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the erasures follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   hides     list of {name of the member (lib/erasures.lua), hide as hide.lua takes it}
--   key       for the names, if the shard has none yet
--
-- Reply: {'STALE'} | {'OK'}
--
-- Example: KEYS  st:{b}  st:{b}:1:keys
--   ARGV  {version='1-1', hides={{'2c26b46b…', {reason='cheating', by='mod', since=1795305600123}}}, key='x'}  reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end
if not head[3] then begin_erasures(HEAD, REGISTRY, args.key) end

for _, kept in ipairs(args.hides) do
  local name, hide = unpack(kept)
  local stored = redis.call('HGET', beside_registry(REGISTRY, KIND_ERASED), name)
  local erasure = stored and unpack_erasure(stored) or {number = 0, instant = -1, changes = 0, hide = ''}
  erasure.name = name
  if not erasure.has_data and erasure.hide == '' then keep_hide(REGISTRY, erasure, cmsgpack.pack(hide)) end
end
return {'OK'}
