-- lib/history.lua: the events that a board keeps.
-- Uses: lib/keys.lua, lib/capture.lua, lib/standing.lua, lib/merge.lua, lib/erasures.lua, lib/ordered.lua, lib/member_index.lua, lib/expiry.lua
-- Loader: load_history
--
-- A *row* is what is kept of an accepted event. What has no row, because it was accepted before or its row has run out, is
-- *folded*: for each member and standing of a period there is one entry that these events made. So an entry always is its
-- folded entry and the rows that count in its period. Keys of a shard:
--   events         hash: id of an event -> row
--   event-index    `taken`: when each event was accepted, and its id (lib/ordered.lua); `member`: for each member the time and
--                  the id of each of its events (lib/member_index.lua)
--   …:folded       next to a standing, hash: member -> its folded entry as in `…:members`, '' for none
-- and fields of the head: `events_from`: of what was accepted before this instant (ms) rows may be gone; `accepted`: the
-- latest time (us) in `taken`; `watched` (see `note_watched`).
-- A folded entry is there as soon as a member has a row in a period in which events without rows may count; elsewhere only
-- if rows have run out. src/domain/history.rs says which periods these are.
--
-- A row, big-endian: flags (1: retracted; 2: revoked), when it was accepted (us), the last revocation before that, the length of
-- the record, the record (lib/record.lua), and what only the service reads (src/domain/history.rs), of which scripts find the
-- member.
--
-- After an erasure only a *stub* is left of a row, under a name that is a keyed hash of its id: flags, when it was accepted,
-- 0, the length of the rest; a keyed hash of the fingerprint; and the tie key. It is in no index but `taken`.

local ROW_FORM, ROW_HEAD_BYTES = '>BI7I4I2', 14
local ACCEPTED_BYTES = 7
local STUB = 128
-- By how much (us) the last event may be ahead of the clock so that the next one follows it.
local AHEAD_MAX_US = 1000000
-- The bytes of what precedes the shares and the member in a row, after its record.
local NUMBERS_BYTES = 14
local SHARE_BYTES = 4
local KEYED_DIGITS = 13
-- No event has it: it has more than 53 bits.
local OTHER_FINGERPRINT = 2 ^ 54
local STUB_BYTES = KEYED_DIGITS + TIE_KEY_BYTES
-- How many bytes of added texts are listed for a correction.
local WATCHED_BYTES_MAX = 1000000

local function open_history(head, registry, layout)
  return {
    head = head, registry = registry, layout = layout, rows = beside_registry(registry, KIND_EVENTS),
    taken = open_ordered(head, registry, 'taken'), of_members = open_member_index(head, registry, 'member'),
    id_prefix = beside_registry(registry, KIND_EVENT_ID .. ':'), watched_texts = beside_registry(registry, KIND_WATCHED),
  }
end

-- The id of an event whose record has this key; nil if it is no such key.
local function id_of_key(history, key)
  local prefix = history.id_prefix
  return string.sub(key, 1, #prefix) == prefix and string.sub(key, #prefix + 1) or nil
end

-- When the next event is accepted (us), after the latest time in `taken`. Events that are accepted together, or nearly so, are
-- in the order in which they are taken, and so go to the end of `taken`, where adding costs least.
local function accepted_after(latest_time, now)
  local now_us = now * 1000
  return latest_time >= now_us and latest_time < now_us + AHEAD_MAX_US and latest_time + 1 or now_us
end

-- Notes the latest time in `taken`.
local function note_accepted(history, accepted)
  call('HSET', history.head, 'accepted', number_text(accepted))
end

local function make_row(flags, accepted, revocation, record, details)
  return struct.pack(ROW_FORM, flags, accepted, revocation, #record) .. record .. details
end

-- The record in a row.
local function record_of(row)
  return string.sub(row, ROW_HEAD_BYTES + 1, ROW_HEAD_BYTES + struct.unpack('>I2', row, ROW_HEAD_BYTES - 1))
end

local function is_stub(row)
  return string.byte(row, 1) >= STUB
end

-- Whether no standing counts the event of a row: it was retracted, or a revocation covers it.
local function is_out(row)
  return string.byte(row, 1) % 4 > 0
end

-- When the event of a row was accepted (us), its tie key, and its member ('' if it is a stub).
local function parts_of_row(row)
  local _, accepted, _, length = struct.unpack(ROW_FORM, row)
  if is_stub(row) then return accepted, struct.unpack(TIE_KEY_FORM, row, ROW_HEAD_BYTES + KEYED_DIGITS + 1), '' end
  local _, at = struct.unpack(HEAD_FORM, row, ROW_HEAD_BYTES + 1)
  local shares = ROW_HEAD_BYTES + length + NUMBERS_BYTES + 1
  local first = shares + 1 + SHARE_BYTES * string.byte(row, shares)
  return accepted, at, string.sub(row, first + 1, first + string.byte(row, first))
end

-- A tie key in the order of time.
local function time_of_tie_key(layout, tie_key)
  return layout.later > 0 and tie_key or TIE_KEY_MAX - tie_key
end

local function taken_text(accepted, id)
  return struct.pack('>I7', accepted) .. id
end

-- The text of a row in the index of its member.
local function time_text(time, id)
  return struct.pack(TIE_KEY_FORM, time) .. id
end

-- The id in a text of `taken`, or of a member.
local function id_in_taken(text)
  return string.sub(text, ACCEPTED_BYTES + 1)
end

local function id_of_member(text)
  return string.sub(text, TIE_KEY_BYTES + 1)
end

-- Rows to be added: parallel lists of their ids, rows, and texts in `taken`; and by member its texts, packed. `are_last`: whether
-- the texts are in order, and after all that are in `taken`.
local function no_rows(are_last)
  return {ids = {}, rows = {}, taken = {}, of_members = {}, are_last = are_last}
end

-- Adds a row to those to be added. `member`: '' if it is a stub.
local function note_row(history, rows, id, row, accepted, at, member)
  local place = #rows.ids + 1
  rows.ids[place], rows.rows[place], rows.taken[place] = id, row, taken_text(accepted, id)
  if member == '' then return end
  rows.of_members[member] = (rows.of_members[member] or '') .. pack_text(time_text(time_of_tie_key(history.layout, at), id))
end

-- While a correction runs, the head has `watched`: its number, until when others wait for it (ms), and the member whose rows
-- it reads (watch.lua). Texts of rows that this member gets meanwhile are listed, packed, in a string. If there are too many,
-- or rows are removed, the watch ends, and the correction starts again.
local function parts_of_watch(watched)
  return string.match(watched or '', '^(%d+) (%d+) (.*)$')
end

local function end_watch(history)
  call('HDEL', history.head, 'watched')
  if call('UNLINK', history.watched_texts) == 1 then call('SREM', history.registry, history.watched_texts) end
end

-- Begins a watch, or has others wait for it until another instant.
local function renew_watch(history, number, until_ms, member)
  call('HSET', history.head, 'watched', number .. ' ' .. number_text(until_ms) .. ' ' .. member)
end

-- The listed texts, packed, but for so many bytes of them.
local function texts_watched(history, seen)
  return call('GETRANGE', history.watched_texts, seen, -1)
end

-- Lists the texts of rows that are added, by member. `history.watched`: the field of the head.
local function note_watched(history, of_members)
  local _, _, member = parts_of_watch(history.watched)
  local texts = of_members[member]
  if not texts then return end
  local bytes = call('APPEND', history.watched_texts, texts)
  if bytes > WATCHED_BYTES_MAX then return end_watch(history) end
  if bytes == #texts then call('SADD', history.registry, history.watched_texts) end
end

-- Adds rows of events that have none.
local function add_rows(history, rows)
  local ids, fields = rows.ids, {}
  if #ids == 0 then return end
  for place = 1, #ids do
    fields[2 * place - 1], fields[2 * place] = ids[place], rows.rows[place]
    capture(KIND_EVENTS, history.rows, ids[place])
  end
  call('HSET', history.rows, unpack(fields))
  if call('HLEN', history.rows) == #ids then call('SADD', history.registry, history.rows) end
  local add = rows.are_last and append_ordered or add_ordered
  add(history.taken, rows.taken)
  add_to_members(history.of_members, rows.of_members)
  if history.watched then note_watched(history, rows.of_members) end
end

-- Adds one row.
local function add_row(history, id, row)
  local rows, accepted = no_rows(false), parts_of_row(row)
  note_row(history, rows, id, row, parts_of_row(row))
  add_rows(history, rows)
  if accepted > tonumber(call('HGET', history.head, 'accepted') or 0) then note_accepted(history, accepted) end
end

-- Removes rows, alternately ids and rows, also from the indexes.
local function drop_rows(history, rows)
  local taken, of_members = {}, {}
  for place = 1, #rows, 2 do
    local id, accepted, at, member = rows[place], parts_of_row(rows[place + 1])
    taken[#taken + 1] = taken_text(accepted, id)
    of_members[member] = of_members[member] or {}
    table.insert(of_members[member], time_text(time_of_tie_key(history.layout, at), id))
    call('HDEL', history.rows, id)
    capture(KIND_EVENTS, history.rows, id)
  end
  remove_ordered(history.taken, taken)
  for member, texts in pairs(of_members) do remove_from_member(history.of_members, member, texts) end
  local _, _, watched = parts_of_watch(call('HGET', history.head, 'watched'))
  if of_members[watched] then end_watch(history) end
  if call('EXISTS', history.rows) == 0 then call('SREM', history.registry, history.rows) end
end

-- The name of the stub of an event, and the hash of its fingerprint. `key`: that of erasures (lib/erasures.lua).
local function stub_name(key, id)
  return NAMELESS .. erased_name(key, id)
end

local function keyed_fingerprint(key, id, fingerprint)
  return string.sub(erased_name(key, number_text(fingerprint) .. SEPARATOR .. id), 1, KEYED_DIGITS)
end

-- Replaces the row of an erased member's event by a stub.
local function erase_row(history, key, id, row)
  drop_rows(history, {id, row})
  local accepted = parts_of_row(row)
  local fingerprint, at = struct.unpack(HEAD_FORM, row, ROW_HEAD_BYTES + 1)
  local stub = struct.pack(ROW_FORM, STUB, accepted, 0, STUB_BYTES)
    .. keyed_fingerprint(key, id, fingerprint) .. struct.pack(TIE_KEY_FORM, at)
  add_row(history, stub_name(key, id), stub)
end

-- Whether a stub is of an event with this fingerprint.
local function is_stub_of(stub, key, id, fingerprint)
  local keyed = string.sub(stub, ROW_HEAD_BYTES + 1, ROW_HEAD_BYTES + KEYED_DIGITS)
  return keyed == keyed_fingerprint(key, id, fingerprint)
end

-- The record of a stub, which has no fingerprint, with this one.
local function record_of_stub(stub, fingerprint)
  local _, at = parts_of_row(stub)
  return struct.pack(HEAD_FORM, fingerprint, at, STATUS_ALONE)
end

-- Adds the records of kept events to those that are known by their keys. `ids`, `fingerprints`: columns of apply.lua; `key`:
-- that of erasures, false if no member was ever erased.
local function load_kept(history, key, ids, fingerprints, records)
  local names, events = {}, {}
  for e, index in ipairs(ids) do
    local id_key = KEYS[index] or ''
    local id = not records[id_key] and id_of_key(history, id_key)
    if id then names[#names + 1], events[#events + 1] = id, e end
  end
  if #names == 0 then return end
  local rows, stubs = call('HMGET', history.rows, unpack(names)), {}
  if key then
    for place, id in ipairs(names) do stubs[place] = stub_name(key, id) end
    stubs = call('HMGET', history.rows, unpack(stubs))
  end
  for place, e in ipairs(events) do
    local id_key = KEYS[ids[e]]
    if rows[place] then
      records[id_key] = record_of(rows[place])
    elseif stubs[place] and is_stub_of(stubs[place], key, names[place], fingerprints[e]) then
      records[id_key] = record_of_stub(stubs[place], fingerprints[e])
    elseif stubs[place] and not records[id_key] then
      records[id_key] = record_of_stub(stubs[place], OTHER_FINGERPRINT)
    end
  end
end

-- Writes the row of an event again, unless a row is not what remembers it, so that replicas have it after this call.
local function confirm_row(history, id_key)
  local id = id_of_key(history, id_key)
  local row = call('HGET', history.rows, id)
  if row then call('HSET', history.rows, id, row) end
end

local function folded_of(zset)
  return zset .. ':' .. KIND_FOLDED
end

-- An entry as folded ones are stored.
local function pack_entry(score, time, data)
  return struct.pack(ENTRY_FORM, time or 0, score) .. (data or '')
end

-- A stored folded entry {score, time, data}; nil for none.
local function unpack_entry(layout, packed)
  if not packed or packed == '' then return nil end
  local time, score = struct.unpack(ENTRY_FORM, packed)
  return {score = score, time = layout.hashed and time or nil, data = layout.data and string.sub(packed, ENTRY_BYTES + 1) or nil}
end

-- Finds out which of these members lack a folded entry in a standing that may have events without rows.
local function look_for_folded(standing, members)
  standing.folded, standing.lacks = standing.folded or {}, standing.lacks or {}
  local missing, ids = {}, {}
  for _, m in ipairs(members) do
    if standing.lacks[m] == nil then
      missing[#missing + 1], ids[#ids + 1] = m, standing.names[m]
      standing.lacks[m] = false
    end
  end
  if #missing == 0 then return end
  for place, packed in ipairs(call('HMGET', folded_of(standing.zset), unpack(ids))) do
    standing.lacks[missing[place]] = not packed
  end
end

-- Notes the entry that a member has before its first row as its folded entry, if it lacks one.
local function note_folded(standing, m)
  if not standing.lacks or not standing.lacks[m] then return end
  standing.lacks[m] = false
  local score, folded = standing.score[m], standing.folded
  folded[#folded + 1] = standing.names[m]
  folded[#folded + 1] = score and pack_entry(score, standing.time[m], standing.data and standing.data[m]) or ''
end

-- Stores folded entries, alternately members and entries, next to a sorted set.
local function store_folded(history, zset, folded, expires, now)
  if #folded == 0 then return end
  local key = folded_of(zset)
  local added = call('HSET', key, unpack(folded))
  if call('HLEN', key) == added then keep_until(history.registry, key, expires or 0, now) end
  for place = 1, #folded, 2 do capture(KIND_FOLDED, key, folded[place]) end
end

-- A fold makes an entry {score, time, data} of an entry (nil: none) and events, in any order: the result is the same. It
-- may be made in steps. Sums are in two parts, since an intermediate one may pass 2^53.
local function begin_fold(entry)
  return {entry = entry, high = 0, low = 0}
end

-- Adds a score to the parts of a sum.
local function add_score(fold, score)
  local high = math.floor(score / LOW)
  fold.high, fold.low = fold.high + high, fold.low + score - high * LOW
end

-- Adds events to a fold, each {stored amount, tie key, data}.
local function fold_events(layout, update, fold, events)
  local is_sum, entry = update == 'sum', fold.entry
  for _, event in ipairs(events) do
    local amount, at, data = event[1], layout.hashed and event[2] or nil, layout.data and event[3] or nil
    if is_sum then
      if amount == 0 and at then at = -1 - at end
      add_score(fold, amount)
      amount = 0
    end
    if not entry then
      entry = {score = amount, time = at, data = data}
    else
      local before = {score = {entry.score}, time = {entry.time}, data = {entry.data}}
      local score, time = merge(layout, update, entry.score, entry.time, amount, at)
      entry.data = data and merge_data(before, 1, score, time, amount, at, data, is_sum)
      entry.score, entry.time = score, time
    end
  end
  fold.entry = entry
end

-- The sum of the parts.
local function score_of(fold)
  local carried = math.floor(fold.low / LOW)
  return (fold.high + carried) * LOW + fold.low - carried * LOW
end

-- The entry of a fold that is complete; nil for none.
local function end_fold(update, fold)
  local entry = fold.entry
  if entry and update == 'sum' then
    add_score(fold, entry.score)
    entry.score = score_of(fold)
  end
  return entry
end

local function entry_with_events(layout, update, entry, events)
  local fold = begin_fold(entry)
  fold_events(layout, update, fold, events)
  return end_fold(update, fold)
end
