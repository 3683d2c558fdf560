-- hide.lua: hides a member of a board, or brings it back (lib/hides.lua).
-- Uses: lib/slot.lua, lib/capture.lua, lib/hides.lua, lib/erasures.lua
--
-- A member need not have a score. An existing hide stays; another reason or end replaces the one that it has, but its id,
-- since when it holds and who has hidden the member do not change.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the hides follow
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   member     its id
--   hide       {id, reason, by, since, until}, until only if it ends; absent: the member is brought back
--   ends       without `hide`: only a hide that ends at this time (ms) is removed; absent: any
--   hidden_max how many members of the shard may be hidden
--
-- Reply: {'STALE'} | {'HIDDEN', its hide now, the one before} | {'FULL'}: too many are hidden |
--   {'BACK', the hide that it had}: the member was brought back | {'NOT_HIDDEN'}: it has no such hide.
--   Each hide is as it is stored, '' for none. A hide that has ended counts as none.
--
-- Example: ann is hidden permanently:
--   KEYS  st:{b} st:{b}:1:keys
--   ARGV  {version='1-1', member='ann', hide={id='hide_8f…', reason='cheating', by='mod', since=1795305600123},
--         hidden_max=100000}
--   reply {'HIDDEN', …, ''}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end

local hides = hides_of(HEAD, REGISTRY)
local erasure = head[3] and load_erasures(REGISTRY, head[3], {args.member})[1]
-- The hide of an erased member is stored with the erasure until the member has data again.
local lies_there = erasure and not erasure.has_data
local packed = redis.call('HGET', hides.lines, args.member) or ''
if lies_there then packed = erasure.hide end
local stored = packed ~= '' and cmsgpack.unpack(packed)

local function set(line)
  if lies_there then keep_hide(REGISTRY, erasure, line or '') else set_hide(hides, args.member, line) end
end

local function hide(new)
  if not stored and redis.call('ZCARD', hides.hidden) >= args.hidden_max then return {'FULL'} end
  local goes_on = stored and not has_ended(stored, new.since)
  if goes_on then new.id, new.since, new.by = stored.id, stored.since, stored.by end
  local line = cmsgpack.pack(new)
  -- Written even if unchanged: if the caller waits for replicas after this call, the replicas have it.
  set(line)
  return {'HIDDEN', line, goes_on and packed or ''}
end

local function bring_back()
  if not stored or (args.ends and stored['until'] ~= args.ends) then return {'NOT_HIDDEN'} end
  set(nil)
  return {'BACK', packed}
end

if args.hide then return hide(args.hide) end
return bring_back()
