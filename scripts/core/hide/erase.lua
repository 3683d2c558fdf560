-- erase.lua: erases a member of a board (lib/erasures.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/hides.lua, lib/erasures.lua, lib/queue.lua
--
-- From this step on no read shows the member, and what was written of it before does not count. forget.lua removes it. A
-- hide of the member stays, under the keyed hash. The member need not have a score.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the erasures and the hides follow
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   member    its id
--   number    of the erasure: a stamp. If this erasure or a later one is known, the script does nothing
--   instant   a tie key of `ties: first`
--   key       for the names, if the shard has none yet
--   tag, salt of the lines that stay in final standings (lib/nameless.lua)
--   revised   the last line of the journal that all results of the board include; absent if not known
--
-- Reply: {'STALE'} | {'OK'} | {'BEHIND'}: nothing done, revise the results first: the member can't be found later
--
-- Example: KEYS  st:{b}  st:{b}:1:keys  ARGV {version='1-1', member='ann', number=28080000123456, instant=…, key='x',
--   tag='05af', salt='y'} reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()
local member = args.member

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'erased', 'closed_until')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end

local key = head[3] or args.key
local before = load_erasures(REGISTRY, key, {member})[1]
if before and before.number >= args.number then return {'OK'} end

-- Where the removal begins: with the events that wait in the queue, and the dead letters, if there may be any (forget.lua).
local function first_cursor()
  load_queue()
  local last = last_entry(beside_registry(REGISTRY, KIND_QUEUE))
  local has_letters = redis.call('EXISTS', beside_registry(REGISTRY, KIND_DEAD_LETTERS)) == 1
  return (last or has_letters) and 'queue/-/' .. (last or '0-0') or '0'
end

local hides, erasing = hides_of(HEAD, REGISTRY), beside_registry(REGISTRY, KIND_ERASING)
local pending = redis.call('HGET', erasing, member)
-- The last line of the member. The line of an erasure in progress is in no result.
local line = head[4] and not pending and redis.call('ZSCORE', hides.journal, member)
if line and tonumber(line) > (args.revised or 0) then return {'BEHIND'} end
if not head[3] then begin_erasures(HEAD, REGISTRY, key) end

local hide = redis.call('HGET', hides.lines, member)
set_hide(hides, member, nil)
write_line(hides, member, true)

-- Each erasure is later than the one before it, even if the clock is not.
local instant = before and math.max(args.instant, before.instant + 1) or args.instant
store_erasure(REGISTRY, {
  name = erased_name(key, member), number = args.number, instant = instant, changes = 0,
  has_data = false, hide = hide or before and before.hide or '',
})

-- A hidden member leaves no line in final standings. Others leave one in those that are final by now, however late the
-- removal comes. If an earlier erasure is still in progress, that decision stands.
local stays = pending and string.sub(pending, string.find(pending, ' ') or #pending + 1) or hide and ''
redis.call('HSET', erasing, member, first_cursor() .. (stays or table.concat({'', args.tag, args.salt, head[4] or ''}, ' ')))
redis.call('SADD', REGISTRY, erasing)
capture(KIND_ERASING, erasing, member)
return {'OK'}
