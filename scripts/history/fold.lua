-- fold.lua: removes rows of kept events, and folds what they have made of entries (lib/history.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/standing.lua, lib/record.lua, lib/erasures.lua, lib/ordered.lua, lib/history.lua
--
-- A row is removed, and is part of the folded entries, in the same step: repeating a call does nothing. A row that is not as
-- the caller has read it, or whose member is being erased, stays for another call.
--
-- Takes: 2 keys or more, 1 argument or more
-- KEYS[1]  head of the shard, KEYS[2] registry, KEYS[3…] sorted sets of standings
-- ARGV[1]  MessagePack of a map:
--   version, now, layout, update   as in apply.lua
--   remember   ms for which the ids of the events are remembered from now on
--   stubs_until   stubs of events that were accepted before this instant (us) are removed: nothing else remembers them
--   rows       list of {data, standings}: the oldest rows. `standings`: list of {index in KEYS, stored amount, expires (ms
--              since the epoch, 0: never)}: what the row counts in
-- ARGV[2…]  for each of these rows: its text in the index `taken`; the row as the caller has read it, '' for none
--
-- Reply: {'STALE'} | {'OK'}
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:s:all:all
--   ARGV {version='1-1', …, rows={{'', {{3, -5, 0}}}}} '……run-1' '…'  reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local head = call('HMGET', HEAD, 'version', 'moving', 'erased', 'queue:open', 'events_from')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end
load_history()
load_hides()
local history = open_history(HEAD, REGISTRY, args.layout)
local ids_of_queue, EVENT = beside_registry(REGISTRY, KIND_QUEUE_IDS), beside_registry(REGISTRY, KIND_EVENT_ID .. ':')

-- The folded entries that this call reads, by sorted sets and members, and the members of each, in order.
local folded = {}

local function fold(zset, expires, member, event)
  local of_standing = folded[zset] or {entries = {}, members = {}, expires = expires}
  folded[zset] = of_standing
  if of_standing.entries[member] == nil then
    of_standing.entries[member] = unpack_entry(args.layout, call('HGET', folded_of(zset), member)) or false
    table.insert(of_standing.members, member)
  end
  of_standing.entries[member] =
    entry_with_events(args.layout, args.update, of_standing.entries[member] or nil, {event})
end

-- Whether a row is from before its member's last erasure.
local function is_erased(member, row)
  if not head[3] then return false end
  local erasure = load_erasures(REGISTRY, head[3], {member})[1]
  return erasure ~= nil and erasure.number ~= erasure_before(record_of(row))
end

local function fold_row(row, data, standings)
  local _, at, member = parts_of_row(row)
  if is_out(row) or is_erased(member, row) then return end
  for _, standing in ipairs(standings) do
    local key, amount, expires = unpack(standing)
    if expires == 0 or expires > args.now then fold(KEYS[key], expires, member, {amount, at, data}) end
  end
end

-- An event with the same id may wait in the queue for longer than the id is remembered.
local function remember(id, row)
  local ms = args.remember
  if head[4] and call('HEXISTS', ids_of_queue, id) == 1 then ms = ms + QUEUE_AGE_MS end
  call('SET', EVENT .. id, record_of(row), 'PX', number_text(ms))
end

local ERASING = beside_registry(REGISTRY, KIND_ERASING)
local has_erasing = head[3] and call('HLEN', ERASING) > 0

-- Whether a row may be removed now.
local function may_go(row)
  local accepted, _, member = parts_of_row(row)
  if is_stub(row) then return accepted < args.stubs_until end
  return not has_erasing or call('HEXISTS', ERASING, member) == 0
end

local events_from, dropped, dangling = tonumber(head[5] or '-inf'), {}, {}
for index, seen in ipairs(args.rows) do
  local text, seen_row, data, standings = ARGV[2 * index], ARGV[2 * index + 1], seen[1], seen[2]
  local id = id_in_taken(text)
  local row = call('HGET', history.rows, id)
  if row and row == seen_row and may_go(row) then
    if not is_stub(row) then
      fold_row(row, data, standings)
      remember(id, row)
    end
    events_from = math.max(events_from, math.floor(parts_of_row(row) / 1000) + 1)
    dropped[#dropped + 1], dropped[#dropped + 2] = id, row
  elseif not row then
    dangling[#dangling + 1] = text
  end
end
drop_rows(history, dropped)
remove_ordered(history.taken, dangling)
for zset, of_standing in pairs(folded) do
  local pairs_of = {}
  for _, member in ipairs(of_standing.members) do
    local entry = of_standing.entries[member]
    pairs_of[#pairs_of + 1] = member
    pairs_of[#pairs_of + 1] = pack_entry(entry.score, entry.time, entry.data)
  end
  store_folded(history, zset, pairs_of, of_standing.expires, args.now)
end
if events_from > tonumber(head[5] or '-inf') then call('HSET', HEAD, 'events_from', number_text(events_from)) end
return {'OK'}
