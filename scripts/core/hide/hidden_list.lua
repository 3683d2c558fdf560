-- hidden_list.lua: brings the hidden list of a standing a bounded step closer to the journal of hides (lib/hidden.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/standing.lua, lib/hidden.lua, lib/follow.lua
--
-- A list that is missing, or needs lines that the journal has forgotten, is built from scratch: first from the set of hidden
-- members and those that are being erased, and then from all lines of the journal. So losing one of these keys never shows a
-- hidden member. During the first part the list has the number -1, and its state the field `after`: the last member of the set
-- that was looked at. The caller repeats the call until the reply is DONE. Several callers may do so at once.
--
-- Takes: 3 keys or more, 1 argument
-- KEYS[1]  board, or head of the shard; KEYS[2] registry; KEYS[3…] the standing (`layout.width` keys)
-- ARGV[1]  MessagePack of a map: version, layout (as in apply.lua); lines: how many members or lines one call looks at
--
-- Reply: {'STALE'} | {'MORE'} | {'DONE', the number of the hide up to which the list follows, text, 1 if the list is
--   truncated and has used up half of its spare (widen_list.lua), otherwise 0}
--
-- Example: bob was hidden, and the standing lists him:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:s:day:2026-11-21  ARGV {version='1-1', layout={…}, lines=500}
--   reply {'DONE', '1', 0}

local BOARD, REGISTRY = KEYS[1], KEYS[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = call('HMGET', BOARD, 'version', 'hides', 'hides_from')
if head[1] ~= args.version then return {'STALE'} end
if not head[2] then return {'DONE', '0', 0} end
open_hides(head[2], REGISTRY)

local ids = {}
local standing = standing_at(open_standings(args.layout, ids), 3)
local hidden = hidden_of(standing)

local function done()
  return {'DONE', head[2], is_list_narrow(standing, hidden) and 1 or 0}
end

if is_list_current(standing) then return done() end
local is_forgotten = hidden.number and hidden.number >= 0 and hidden.number < tonumber(head[3] or 0)
if is_forgotten or not is_list_whole(hidden) or hidden.number > hides.number then
  begin_list(standing, -1)
  call('HDEL', hidden.state, 'after')
end

-- The members that this call looks at: first those of the set.
local is_added, lines = {}, {}
local function add(id)
  if not is_added[id] then is_added[id], ids[#ids + 1] = true, id end
end

if hidden.number < 0 then
  local after = call('HGET', hidden.state, 'after')
  local part = call('ZRANGE', hides.hidden, after and '(' .. after or '-', '+', 'BYLEX', 'LIMIT', 0, args.lines)
  for _, id in ipairs(part) do add(id) end
  if #part == args.lines then
    call('HSET', hidden.state, 'after', part[#part])
  else
    for _, id in ipairs(call('HRANDFIELD', beside_registry(REGISTRY, KIND_ERASING), args.lines)) do
      hides.marks[id] = 1
      add(id)
    end
    hidden.number = 0
  end
end
local count = hidden.number < 0 and 0 or math.max(1, args.lines - #ids)
if count > 0 then
  lines = call('ZRANGE', hides.journal, '(' .. number_text(hidden.number), '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
  for index = 1, #lines, 2 do add(lines[index]) end
end

if #ids > 0 then
  load_marks(ids)
  local scores, times = fetch(standing, ids)
  local gone, added, added_scores, touched = {}, {}, {}, {}
  for m, id in ipairs(ids) do
    local score = scores[m]
    if score then
      touched[score] = true
      if is_hide(hides.marks[id]) then
        added[#added + 1], added_scores[#added_scores + 1] = zmember(standing, m, times[m]), score
      else
        gone[#gone + 1] = zmember(standing, m, times[m])
      end
    end
  end
  change_list(standing, gone, added, added_scores, touched)
end
local is_done = #lines < 2 * count
if is_done then hidden.number = hides.number elseif #lines > 0 then hidden.number = tonumber(lines[#lines]) end
store_list(standing)
if is_done then return done() end
return {'MORE'}
