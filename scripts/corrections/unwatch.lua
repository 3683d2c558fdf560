-- unwatch.lua: ends a correction that changes nothing, if it still runs (lib/history.lua).
-- Uses: lib/slot.lua, lib/history.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map: version; layout, see lib/standing.lua; number: that of the correction
--
-- Reply: {'STALE'} | {'OK'}
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', layout={…}, number='7'}  reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local head = call('HMGET', HEAD, 'version', 'watched')
if head[1] ~= args.version then return {'STALE'} end
load_history()
local history = open_history(HEAD, REGISTRY, args.layout)
local number = parts_of_watch(head[2])
if number == args.number then end_watch(history) end
return {'OK'}
