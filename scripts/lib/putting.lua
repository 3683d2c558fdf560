-- lib/putting.lua: puts events into the queue of a shard, each once.
-- Loader: load_queue
-- Uses: lib/queue.lua

-- Begins to put events with these ids, for which a queue has so many bytes of room.
local function begin_putting(queue, ids, of_events, room)
  local putting = {queue = queue, ids = ids, room = room, bytes = 0, entries_of = {}, changed = {}, put = {}}
  for index, text in ipairs(redis.call('HMGET', ids, unpack(of_events))) do putting.entries_of[of_events[index]] = text or nil end
  return putting
end

-- What stands in the queue beside the id of an event, if this event is there, that as a list, and `late`.
local function known_event(putting, id, fingerprint)
  local waiting = putting.entries_of[id]
  if waiting then return select(2, entry_with(putting.queue, waiting, fingerprint)) end
end

-- Puts an event that is not there, and returns whether there was room for it. `late`: the field of one out of the log, or nil.
local function put_event(putting, id, event, late)
  local bytes = bytes_of_entry(id, event)
  if putting.bytes + bytes > putting.room then return false end
  local waiting = putting.entries_of[id]
  local fields = {'id', id, 'event', event}
  if late then fields[5], fields[6] = 'late', late end
  local entry = redis.call('XADD', putting.queue, '*', unpack(fields))
  putting.bytes = putting.bytes + bytes
  putting.put[#putting.put + 1] = id
  putting.entries_of[id] = waiting and waiting .. ' ' .. entry or entry
  putting.changed[id] = putting.entries_of[id]
  return true
end

-- Writes down what was put, beside the stream. `used`: the field of the head, `remember`: see put.lua.
local function end_putting(putting, head, registry, state, used, version, remember)
  if #putting.put > 0 then
    -- The records of their ids; hardly any is there.
    local records, RECORDS = {}, beside_registry(registry, KIND_EVENT_ID .. ':')
    for index, id in ipairs(putting.put) do records[index] = RECORDS .. id end
    if redis.call('EXISTS', unpack(records)) > 0 then
      for _, record in ipairs(records) do redis.call('PEXPIRE', record, remember, 'GT') end
    end
    redis.call('HINCRBY', state, 'bytes', putting.bytes)
    if used ~= version then redis.call('HSET', head, 'used', version) end
  end
  local fields = {}
  for id, entries in pairs(putting.changed) do
    fields[#fields + 1] = id
    fields[#fields + 1] = entries
  end
  if #fields > 0 then redis.call('HSET', putting.ids, unpack(fields)) end
end
