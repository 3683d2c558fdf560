-- hide_again.lua: notes that an erased member has data again, and gives it back the hide that is stored with its erasure
-- (lib/return.lua). In a league this is called on the shard with the journal by which results are revised, before the
-- member has data in any other. Nothing is done for a member that was not erased, or that has had data since. While data of
-- the erased member remains in the shard, nothing is done: the end of the removal (forget.lua) would take the hide out of
-- the journal.
-- Uses: lib/slot.lua, lib/erasures.lua, lib/follow.lua, lib/return.lua
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1]  head of the shard; KEYS[2] registry, from which the keys of the erasures and the hides follow
-- ARGV[1]  version, as in apply.lua
-- ARGV[2]  now, in ms since the epoch
-- ARGV[3]  the member
--
-- Reply: {'STALE'} | {'OK'} | {'ERASING'} data of the erased member remains: remove it (forget.lua)
--
-- Example: KEYS st:{b:16:0} st:{b:16:0}:1:keys  ARGV '1-1' '1795305600000' 'ann'  reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local version, now, member = ARGV[1], tonumber(ARGV[2]), ARGV[3]
require_slot(HEAD)

local head = call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= version then return {'STALE'} end
if not head[2] then return {'OK'} end
load_hides()
local erasure = load_erasures(REGISTRY, head[2], {member})[1]
if erasure and erasure.is_pending then return {'ERASING'} end
if erasure then return_hide(HEAD, REGISTRY, erasure, member, now) end
return {'OK'}
