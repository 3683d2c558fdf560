-- check_events.lua: compares the rows of kept events with their indexes (lib/history.lua), in bounded steps.
-- Uses: lib/slot.lua, lib/cursor.lua, lib/standing.lua, lib/ordered.lua, lib/member_index.lua, lib/history.lua, lib/check.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map:
--   version, layout   as in apply.lua
--   repair   see lib/check.lua
--   walk     'rows' | 'taken' | 'few' | 'many': what is walked through: the rows, or a part of the indexes
--   count    about how many one call looks at
-- ARGV[2]  where the walk goes on, '' at the beginning
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

-- Reports a difference, after it was repaired by this function if that is wanted.
local function report_difference(code, id, repair, ...)
  local outcome = writing(true)
  if outcome == REPAIRED then repair(...) end
  differs(code, outcome, id)
end

-- What the indexes have of a row: its text in `taken`, its member ('' for none), and its text there.
local function texts_of(id, row)
  local accepted, at, member = parts_of_row(row)
  return taken_text(accepted, id), member, time_text(time_of_tie_key(args.layout, at), id)
end

local function check_row(id, row)
  local taken, member, text = texts_of(id, row)
  if not has_text(history.taken, taken) then report_difference('unindexed', id, add_ordered, history.taken, {taken}) end
  if member ~= '' and not texts_of_member(history.of_members, member, text .. '\1', text, 1)[1] then
    report_difference('unindexed', id, add_to_members, history.of_members, {[member] = pack_text(text)})
  end
end

local function check_taken(text)
  local id = id_in_taken(text)
  local row = call('HGET', history.rows, id)
  if not row or texts_of(id, row) ~= text then report_difference('dangling', id, remove_ordered, history.taken, {text}) end
end

local function check_of_member(member, text)
  local id = id_of_member(text)
  local row = call('HGET', history.rows, id)
  if row then
    local _, own_member, own_text = texts_of(id, row)
    if own_member == member and own_text == text then return end
  end
  report_difference('dangling', id, remove_from_member, history.of_members, member, {text})
end

local function check_chunk(ordered, text, id)
  local line = line_for(ordered, text)
  local found = texts_in(chunks_with(ordered, {line})[1] or '')
  table.sort(found, is_before)
  if found[1] ~= first_in(line) then differs('misplaced', LEFT, id) end
end

-- Walks through an ordered set in parts. Returns where it goes on.
local function walk_ordered(ordered, check)
  local texts = texts_before(ordered, from == '' and '\255' or from, '', args.count)
  for _, text in ipairs(texts) do check(text) end
  return #texts == args.count and texts[#texts] or ''
end

-- Calls a function with each field and value of a part of a hash. Returns where the walk goes on.
local function walk_hash(key, check)
  local found, cursor = scan_on('HSCAN', key, from == '' and '0' or from, args.count)
  for place = 1, #found, 2 do check(found[place], found[place + 1]) end
  return cursor == '0' and '' or cursor
end

local walks = {}

function walks.rows()
  return walk_hash(history.rows, check_row)
end

function walks.taken()
  return walk_ordered(history.taken, function(text)
    check_chunk(history.taken, text, id_in_taken(text))
    check_taken(text)
  end)
end

function walks.few()
  return walk_hash(history.of_members.few, function(member, packed)
    for _, text in ipairs(texts_in(packed)) do check_of_member(member, text) end
  end)
end

function walks.many()
  local many = history.of_members.many
  return walk_ordered(many, function(full_text)
    local member, text = string.match(full_text, '^([^' .. SEPARATOR .. ']*)' .. SEPARATOR .. '(.*)$')
    check_chunk(many, full_text, id_of_member(text))
    if call('HGET', history.of_members.few, member) ~= '' then
      return report_difference('dangling', id_of_member(text), remove_ordered, many, {full_text})
    end
    check_of_member(member, text)
  end)
end

return {'OK', walks[args.walk](), unpack(differences)}
