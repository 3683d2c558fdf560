-- check_hides.lua: checks, part by part, whether the keys agree that say which members of a shard are hidden (lib/hides.lua).
-- On request it makes them agree: a member that one of them has as hidden is hidden then. So no hidden member is shown.
-- Uses: lib/slot.lua, lib/cursor.lua, lib/keys.lua, lib/standing.lua, lib/hides.lua, lib/hidden.lua, lib/check.lua
--
-- A member that is being erased has a line in the journal, and no hide.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the hides and the erasures follow
-- ARGV[1]  MessagePack of a map:
--   generation, revision   of the definition that the caller uses
--   phase      the key that is walked (lib/cursor.lua): '' at first
--   cursor     '0' at first
--   part       about how many members one call checks
--   repair     see lib/check.lua
--   now        ms since the epoch
--   seed       random text, from which follow the ids of hides that replace lost ones
--
-- Reply: {'STALE'} another definition is in use | {'OK', next phase ('': this was the last part), next cursor,
--   difference, …}, as in check.lua:
--   type          key, type, the type that it should have: then nothing else of the hides is checked
--   hides_number  the number of the last line in the head, in the journal
--   hides         member; the keys that have it as hidden; the keys that lack it
-- Example: ann is hidden, and her line was lost:
--   KEYS st:{b} st:{b}:1:keys  reply {'OK', 'hidden', '0', {'hides', 0, 'ann', 'hides hidden', 'hide-journal'}}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])

local head = call('HMGET', HEAD, 'version', 'moving', 'hides')
if not is_in_use(head[1], args.generation, args.revision) then return {'STALE'} end
may = head[2] and 0 or args.repair
load_hides()
require_slot(HEAD)
local own, erasing = hides_of(HEAD, REGISTRY), beside_registry(REGISTRY, KIND_ERASING)

local WALKS = {
  {phase = KIND_HIDES, key = own.lines, type = 'hash', scan = 'HSCAN'},
  {phase = KIND_HIDDEN, key = own.hidden, type = 'zset', scan = 'ZSCAN'},
  {phase = KIND_HIDE_JOURNAL, key = own.journal, type = 'zset', scan = 'ZSCAN'},
  {phase = KIND_ERASING, key = erasing, type = 'hash', scan = 'HSCAN'},
}

local function reply_with(phase, cursor)
  return {'OK', phase, cursor, unpack(differences)}
end

-- Checks the types of the keys, and the number of the last line; returns whether there is anything to walk over.
local function check_keys()
  local is_any, is_sound = false, true
  for _, walk in ipairs(WALKS) do
    local found = type_of(walk.key)
    is_any = is_any or found ~= 'none'
    if found ~= 'none' and found ~= walk.type then
      is_sound = false
      differs('type', LEFT, walk.key, found, walk.type)
    end
  end
  if not is_any or not is_sound then return false end
  local number, last = tonumber(head[3] or nil), call('ZRANGE', own.journal, -1, -1, 'WITHSCORES')[2]
  if number and number >= tonumber(last or 0) then return true end
  local outcome = writing(true)
  if outcome == REPAIRED then
    -- Later than every line that there was: all hidden lists are built from scratch.
    local text = number_text(math.max(tonumber(last or 0), number or 0, args.now) + 1)
    call('HSET', HEAD, 'hides', text, 'hides_from', text)
  end
  differs('hides_number', outcome, head[3] or '', last or '')
  return true
end

-- Hides a member in those of the keys that lack it.
local function hide(id, missing)
  call('SADD', REGISTRY, own.lines, own.hidden, own.journal)
  for _, kind in ipairs(missing) do
    if kind == KIND_HIDES then
      local hide_id = 'hide_' .. string.sub(redis.sha1hex(args.seed .. id), 1, 32)
      local lost = {id = hide_id, reason = 'restored: the hide was lost', by = 'standings check', since = args.now}
      call('HSET', own.lines, id, cmsgpack.pack(lost))
    elseif kind == KIND_HIDDEN then
      call('ZADD', own.hidden, 0, id)
    else
      write_line(own, id, true)
    end
  end
end

-- Compares members that the walk over one of the keys has met. A member that several keys have is met in several walks; it is
-- compared in the first.
local function compare(phase, ids)
  local stored, listed = call('HMGET', own.lines, unpack(ids)), call('ZMSCORE', own.hidden, unpack(ids))
  local lines, pending = call('ZMSCORE', own.journal, unpack(ids)), call('HMGET', erasing, unpack(ids))
  for place, id in ipairs(ids) do
    local has, having, missing = {
      [KIND_HIDES] = stored[place], [KIND_HIDDEN] = listed[place], [KIND_ERASING] = pending[place],
      [KIND_HIDE_JOURNAL] = is_hide(tonumber(lines[place] or nil)),
    }, {}, {}
    local is_hide_needed = has[KIND_HIDES] or has[KIND_HIDDEN] or (has[KIND_HIDE_JOURNAL] and not has[KIND_ERASING])
    for _, walk in ipairs(WALKS) do
      local kind = walk.phase
      local is_needed = is_hide_needed or kind == KIND_HIDE_JOURNAL
      if has[kind] then
        having[#having + 1] = kind
      elseif is_needed and kind ~= KIND_ERASING then
        missing[#missing + 1] = kind
      end
    end
    if having[1] == phase and #missing > 0 then
      local outcome = writing(true)
      if outcome == REPAIRED then hide(id, missing) end
      differs('hides', outcome, id, table.concat(having, ' '), table.concat(missing, ' '))
    end
  end
end

local at = 1
if args.phase == '' then
  if not check_keys() then return reply_with('', '0') end
else
  while WALKS[at].phase ~= args.phase do at = at + 1 end
end
local walk = WALKS[at]
local flat, cursor = scan_on(walk.scan, walk.key, args.cursor, args.part)
local ids = {}
for index = 1, #flat, 2 do ids[#ids + 1] = flat[index] end
-- A command takes a limited number of arguments.
for first = 1, #ids, 500 do compare(walk.phase, {unpack(ids, first, math.min(#ids, first + 499))}) end
if cursor ~= '0' then return reply_with(walk.phase, cursor) end
return reply_with(WALKS[at + 1] and WALKS[at + 1].phase or '', '0')
