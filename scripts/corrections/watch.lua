-- watch.lua: begins a correction in a shard: from now on rows that its member gets are listed (lib/history.lua).
-- Uses: lib/slot.lua, lib/standing.lua, lib/history.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map: version; layout, see lib/standing.lua; now, until (ms): how long others wait; member
--
-- Reply: {'STALE'} | {'WAIT'}: another correction runs | {'OK', the number of the correction, text}
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', layout={…}, now=1764000000000, until=1764000002000, member='ann'}
--   reply {'OK', '7'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local head = call('HMGET', HEAD, 'version', 'watched')
if head[1] ~= args.version then return {'STALE'} end
load_history()
local history = open_history(HEAD, REGISTRY, args.layout)
local _, of_other = parts_of_watch(head[2])
if of_other and tonumber(of_other) > args.now then return {'WAIT'} end
local number = number_text(call('HINCRBY', HEAD, 'corrections', 1))
end_watch(history)
renew_watch(history, number, args['until'], args.member)
return {'OK', number}
