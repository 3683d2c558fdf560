-- check_state.lua: checks whether the state of a derived series can be read (lib/derived.lua). If not, the script drops it
-- on request: then its standings are built from scratch when they are needed.
-- Uses: lib/check.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] state
-- ARGV[1]  MessagePack of a map: generation, revision of the definition that the caller uses; repair: see lib/check.lua;
--          is_sound: whether the standings that the series follows from are sound
--
-- Reply: {'STALE'} | {'OK', difference, …}, as in check.lua:
--   state    type of the key
-- Example: KEYS st:{b} st:{b}:1:state:last-2-days  reply {'OK', {'state', 0, 'hash'}}

local STATE = KEYS[2]
local args = cmsgpack.unpack(ARGV[1])

local head = call('HMGET', KEYS[1], 'version', 'moving')
if not is_in_use(head[1], args.generation, args.revision) then return {'STALE'} end
may = head[2] and 0 or args.repair
if not readable_entries(STATE) then
  local found = type_of(STATE)
  differs('state', by_command(removing(args.is_sound), 'UNLINK', STATE), found)
end
return {'OK', unpack(differences)}
