-- check_events.lua: compares the rows of kept events with their indexes (lib/history.lua), in bounded steps.
-- Uses: lib/slot.lua, lib/cursor.lua, lib/standing.lua, lib/ordered.lua, lib/history.lua, lib/check.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map:
--   version, layout   as in apply.lua
--   repair   see lib/check.lua
--   walk     'rows' | 'taken' | 'member': what is walked through: the rows, or one of the indexes
--   count    about how many one call looks at
-- ARGV[2]  a cursor of the rows, '0' at the beginning; a text of the index, '' at the beginning: it goes on before that
--
-- Reply: {'STALE'} | {'OK', where the walk goes on ('' at the end), for each difference {code, outcome, id}}:
--   unindexed   an index lacks an event: repaired by adding it
--   dangling    an index has an event that has no row, or another place in the index: repaired by removing it
--   misplaced   the directory of an index does not have the first text of a chunk: left
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', layout={…}, repair=0, walk='taken', count=200} ''  reply {'OK', ''}

local HEAD, REGISTRY, from = KEYS[1], KEYS[2], ARGV[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
if call('HGET', HEAD, 'version') ~= args.version then return {'STALE'} end
may = args.repair
load_history()
local history = open_history(HEAD, REGISTRY, args.layout)

-- The texts that the indexes have of a row, by the indexes.
local function texts_of(id, row)
  local accepted, at, member = parts_of_row(row)
  local texts = {[history.taken] = taken_text(accepted, id)}
  if member ~= '' then texts[history.by_member] = member_text(member, time_of_tie_key(args.layout, at), id) end
  return texts
end

local function check_row(id, row)
  for ordered, text in pairs(texts_of(id, row)) do
    if not has_text(ordered, text) then
      local outcome = writing(true)
      if outcome == REPAIRED then add_ordered(ordered, {text}) end
      differs('unindexed', outcome, id)
    end
  end
end

local function check_text(ordered, text)
  local id = id_in_text(history, ordered, text)
  local row = call('HGET', history.rows, id)
  if row and texts_of(id, row)[ordered] == text then return end
  local outcome = writing(true)
  if outcome == REPAIRED then remove_ordered(ordered, {text}) end
  differs('dangling', outcome, id)
end

local function check_chunk(ordered, text)
  local line = line_for(ordered, text)
  local found = texts_in(chunks_with(ordered, {line})[1] or '')
  table.sort(found, is_before)
  if found[1] ~= first_in(line) then differs('misplaced', LEFT, id_in_text(history, ordered, text)) end
end

local next_from = ''
if args.walk == 'rows' then
  local found, cursor = scan_on('HSCAN', history.rows, from, args.count)
  for place = 1, #found, 2 do check_row(found[place], found[place + 1]) end
  if cursor ~= '0' then next_from = cursor end
else
  local ordered = args.walk == 'taken' and history.taken or history.by_member
  local texts = texts_before(ordered, from == '' and '\255' or from, '', args.count)
  for _, text in ipairs(texts) do
    check_chunk(ordered, text)
    check_text(ordered, text)
  end
  if #texts == args.count then next_from = texts[#texts] end
end
return {'OK', next_from, unpack(differences)}
