-- lib/queue.lua: the queue of a shard, in which events wait to be applied.
-- Uses: lib/keys.lua
-- Loader: load_queue
--
-- Three keys hold what waits; a script that changes one of them changes all:
--   queue   stream: an entry for each event, with the fields `id` and `event`: the event's id, and the rest of it, a
--           MessagePack array: its fingerprint is first, its member second, the instant that it counts for fifth
--           (src/domain/queued.rs). An event from the log has a third field, `late`: the barrier of the closing after whose
--           ends it was appended (take.lua), ms since the epoch; 0: of none. On boards with revocations (lib/history.lua) there
--           is also `revocation`, the last one before the event was queued
--   ids     hash: id of an event -> its entries, separated by spaces: exactly those in the stream. There are several if
--           events with different content share an id
--   state   hash: bytes (of all entries), indexed ('1': the index of queues has this one), epoch (how often it was removed)
-- The head of the shard has the field `queue:open` while the index has the queue. Without it nothing waits, so scripts that
-- have read the head need not look.

-- How many bytes an entry counts for: about what it takes. Its id is in the stream and in the hash.
local function bytes_of_entry(id, event)
  return #event + 2 * #id + QUEUE_ENTRY_BYTES
end

-- The fields of an entry of a stream from a place on, by their names.
local function fields_by_name(found, first)
  local fields, by_name = found[2], {}
  for place = first or 1, #fields, 2 do by_name[fields[place]] = fields[place + 1] end
  return by_name
end

-- An event without its id, as a list; nil if it can't be read: it may be damaged, or written by a newer release.
local function read_event(event)
  local is_readable, parts = pcall(cmsgpack.unpack, event or '')
  return is_readable and type(parts) == 'table' and parts or nil
end

-- The fingerprint of an event that the service has just packed.
local function fingerprint_of(event)
  return read_event(event)[1]
end

-- The instant that such an event counts for, microseconds since the epoch.
local function instant_of(event)
  return read_event(event)[5]
end

-- The member of an event, '' if it can't be read.
local function member_of(event)
  local parts = read_event(event) or {}
  return type(parts[2]) == 'string' and parts[2] or ''
end

-- For members that are being erased, the last entry of the queue whose event the erasure removes, there or among the dead
-- letters; false for others.
local function erasing_marks(registry, members)
  local marks = redis.call('HMGET', beside_registry(registry, KIND_ERASING), unpack(members))
  for index, cursor in ipairs(marks) do marks[index] = cursor and string.match(cursor, '^%a+/%S+/(%S+)') or false end
  return marks
end

-- Whether an entry of a stream is not after another one.
local function is_up_to(entry, other)
  local ms, number = string.match(entry, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other, '^(%d+)-(%d+)$')
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  return ms < other_ms or ms == other_ms and tonumber(number) <= tonumber(other_number)
end

-- The first entry of a queue; nil if it is empty.
local function first_entry(queue)
  local found = redis.call('XRANGE', queue, '-', '+', 'COUNT', 1)[1]
  return found and found[1]
end

-- An entry after all that a queue has ever had, which is made and removed again; nil if it never had one. (XINFO would
-- return the last one. But whether a user may call it can't be checked by its name alone.)
local function last_entry(queue)
  local entry = redis.call('XADD', queue, 'NOMKSTREAM', '*', 'id', '')
  if entry then redis.call('XDEL', queue, entry) end
  return entry or nil
end

-- Whether a value of the hash of ids, or nil, names an entry.
local function names_entry(text, entry)
  return text == entry or text and string.find(' ' .. text .. ' ', ' ' .. entry .. ' ', 1, true) ~= nil
end

-- A value of the hash of ids without an entry.
local function without_entry(text, entry)
  if text == entry then return '' end
  local others = {}
  for other in string.gmatch(text, '%S+') do
    if other ~= entry then others[#others + 1] = other end
  end
  return table.concat(others, ' ')
end

-- Opens a queue for entries, and returns how many bytes it has; or nil and its epoch, if the index may not name it
-- (put.lua). `listed_under`: the epoch under which the caller has put it into the index.
local function open_queue(head, registry, queue, ids, state, listed_under)
  local stored = redis.call('HMGET', state, 'indexed', 'epoch', 'bytes')
  if stored[1] ~= '1' then
    local epoch = stored[2] or '0'
    if listed_under ~= epoch then return nil, epoch end
    redis.call('SADD', registry, queue, ids, state)
    redis.call('HSET', state, 'indexed', '1', 'epoch', epoch)
    redis.call('HSET', head, 'queue:open', '1')
  end
  return tonumber(stored[3] or 0)
end

-- Of the entries that a value of the hash of ids, or nil, names, the one with this content: the entry, its event as stored,
-- as a list, `late` (0: it is not), and `revocation` (0: none); nil if there is none.
local function entry_with(queue, text, fingerprint)
  for entry in string.gmatch(text or '', '%S+') do
    local found = redis.call('XRANGE', queue, entry, entry)[1]
    -- An entry may have been removed by hand, or damaged: it equals none.
    local fields = found and fields_by_name(found) or {}
    local parts = read_event(fields.event)
    if parts and parts[1] == fingerprint then
      return entry, fields.event, parts, tonumber(fields.late or 0), tonumber(fields.revocation or 0)
    end
  end
end

-- Removes entries, each {entry, id = of its event, bytes}; all of them are in the stream.
local function leave_queue(queue, ids, state, entries)
  local names, of_events, bytes = {}, {}, 0
  for index, removed in ipairs(entries) do
    names[index], of_events[index], bytes = removed.entry, removed.id, bytes + removed.bytes
  end
  redis.call('XDEL', queue, unpack(names))
  local left = {}
  for index, text in ipairs(redis.call('HMGET', ids, unpack(of_events))) do left[of_events[index]] = text or '' end
  for index, id in ipairs(of_events) do left[id] = without_entry(left[id], names[index]) end
  local gone, kept = {}, {}
  for id, text in pairs(left) do
    if text == '' then
      gone[#gone + 1] = id
    else
      kept[#kept + 1], kept[#kept + 2] = id, text
    end
  end
  if #gone > 0 then redis.call('HDEL', ids, unpack(gone)) end
  if #kept > 0 then redis.call('HSET', ids, unpack(kept)) end
  redis.call('HINCRBY', state, 'bytes', -bytes)
end
