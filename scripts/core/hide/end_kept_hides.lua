-- end_kept_hides.lua: ends hides that are stored with erasures (lib/erasures.lua), once they are due to end.
-- Uses: lib/slot.lua, lib/cursor.lua, lib/keys.lua, lib/capture.lua, lib/hides.lua, lib/erasures.lua
--
-- One call looks at some of the erasures (lib/cursor.lua).
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the erasures follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   now       ms since the epoch: hides that end by then are ended
--   cursor    '0' at first
--   count     about how many erasures one call looks at
--
-- Reply: {'STALE'} | {'OK', cursor}: '0' when all were looked at
--
-- Example: KEYS  st:{b}  st:{b}:1:keys  ARGV {version='1-1', now=1795305600123, cursor='0', count=300}  reply {'OK', '0'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if not head[3] then return {'OK', '0'} end
if head[2] then start_capture(head[2]) end

local lines, cursor = scan_on('HSCAN', beside_registry(REGISTRY, KIND_ERASED), args.cursor, args.count)
for index = 1, #lines, 2 do
  -- The line without a name has the key for the names.
  if lines[index] ~= '' then
    local erasure = unpack_erasure(lines[index + 1])
    erasure.name = lines[index]
    if erasure.hide ~= '' and has_ended(cmsgpack.unpack(erasure.hide), args.now) then keep_hide(REGISTRY, erasure, '') end
  end
end
return {'OK', cursor}
