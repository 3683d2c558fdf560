-- lib/putting.lua: puts events into the queue of a shard, each once.
-- Loader: load_queue
-- Uses: lib/keys.lua, lib/queue.lua

-- Begins to put events with these ids into a queue that has `room` bytes left.
local function begin_putting(queue, ids, of_events, room)
  local putting = {queue = queue, ids = ids, room = room, bytes = 0, entries_of = {}, written = {}}
  for index, text in ipairs(redis.call('HMGET', ids, unpack(of_events))) do
    if text then putting.entries_of[of_events[index]] = text end
  end
  return putting
end

-- The queued event with this id and content, as stored, as a list, and its `late`; nil if there is none.
local function known_event(putting, id, event)
  local entries = putting.entries_of[id]
  if entries then return select(2, entry_with(putting.queue, entries, fingerprint_of(event))) end
end

-- Marks an id whose field in the hash of ids has to be written, with the entries that it has by now.
local function write_id(putting, id)
  local written = putting.written
  local count = #written
  written[count + 1], written[count + 2] = id, putting.entries_of[id]
end

-- Puts an event that is not there, and returns whether there was room for it. `revocation`: its field, 0 for none; `late`: its
-- field if from the log.
local function put_event(putting, id, event, revocation, late)
  local bytes = putting.bytes + bytes_of_entry(id, event)
  if bytes > putting.room then return false end
  local fields = {'id', id, 'event', event}
  if late then fields[#fields + 1], fields[#fields + 2] = 'late', late end
  if revocation > 0 then fields[#fields + 1], fields[#fields + 2] = 'revocation', revocation end
  local entry = redis.call('XADD', putting.queue, '*', unpack(fields))
  local waiting = putting.entries_of[id]
  putting.entries_of[id] = waiting and waiting .. ' ' .. entry or entry
  putting.bytes = bytes
  write_id(putting, id)
  return true
end

-- Writes what was put, except for the stream. `used`: the field of the head; `remember`: see put.lua.
local function end_putting(putting, head, registry, state, used, version, remember)
  local written = putting.written
  if #written > 0 then redis.call('HSET', putting.ids, unpack(written)) end
  if putting.bytes == 0 then return end
  redis.call('HINCRBY', state, 'bytes', putting.bytes)
  if used ~= version then redis.call('HSET', head, 'used', version) end
  -- The records of the ids; few exist.
  local records, RECORDS = {}, beside_registry(registry, KIND_EVENT_ID .. ':')
  for place = 1, #written, 2 do records[#records + 1] = RECORDS .. written[place] end
  if redis.call('EXISTS', unpack(records)) > 0 then
    for _, record in ipairs(records) do redis.call('PEXPIRE', record, remember, 'GT') end
  end
end
