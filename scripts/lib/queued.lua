-- lib/queued.lua: events of apply.lua that come from the queue of their shard, or that also wait there.
-- Uses: lib/keys.lua, lib/standing.lua, lib/queue.lua
-- Loader: load_queue
--
-- An event from the queue is carried out only while it is in the queue, and under the current number of the queue's lease.
-- It is compared with `final_until`, not with the barrier: what was queued before a closing counts, unless the closing no
-- longer waits (close_shard.lua); what is late for a closing is compared with the barrier of that. If it is taken, or is a
-- duplicate, it leaves the queue in the same step. If an event that does not come from the queue is taken or is a
-- duplicate, the queued event with the same id and content leaves, too: otherwise it might wait until the id is forgotten.
-- While others with other content wait under an id, the id is remembered for as long as they may wait.

-- Returns how the events of a call are handled: {carry_out = carries out the event with this number, leave = removes events
-- that were taken from the queue, remembered_longer = the keys of ids under which others wait}. `queue`: see apply.lua; nil
-- if no event comes from it. `events`: the columns and the functions of apply.lua.
local function open_queued(head, registry, queue, events)
  local ids, keys, records = events.ids, KEYS, events.records
  local stream, index, state =
    beside_registry(registry, KIND_QUEUE), beside_registry(registry, KIND_QUEUE_IDS), beside_registry(registry, KIND_QUEUE_STATE)
  -- Keys that are only written: if one is of another type, the call aborts here.
  call('XLEN', stream)
  call('HLEN', state)
  local stored, leaving, remembered_longer = call('HMGET', head, 'queue:number', 'final_until'), {}, {}
  local lease, final_until = stored[1], stored[2] and events.tie_key_of_ms(stored[2])

  -- The barrier of an event that has waited in the queue.
  local function barrier_of_queued(late)
    if late == 0 then return final_until end
    return math.max(final_until or 0, events.tie_key_of_ms(late))
  end

  -- The ids of the events, '' for none, and the entries of each id as text.
  local event_ids, entries_of, prefix = {}, {}, beside_registry(registry, KIND_EVENT_ID .. ':')
  for e, place in ipairs(ids) do
    local key = keys[place] or ''
    event_ids[e] = string.sub(key, 1, #prefix) == prefix and string.sub(key, #prefix + 1) or ''
  end
  for e, text in ipairs(call('HMGET', index, unpack(event_ids))) do entries_of[event_ids[e]] = text or '' end
  -- Two events without id are never the same.
  entries_of[''] = ''

  local function was_taken(answer)
    return type(answer) == 'string' or answer[1] == TAKEN or answer[1] == DUPLICATE
  end

  local function leave(id, entry, bytes)
    entries_of[id] = without_entry(entries_of[id], entry)
    leaving[#leaving + 1] = {entry = entry, id = id, bytes = bytes}
  end

  local function carry_out_queued(e, entry)
    local id, barrier = event_ids[e], barrier_of_queued(queue.lates[e])
    if queue.leases[e] ~= lease or not names_entry(entries_of[id], entry) then
      local known = events.recognise(e, barrier)
      -- A repetition of the call that took the event, made below the caller.
      return type(known) == 'string' and known or {GONE}
    end
    events.revoked_before[e] = queue.revocations[e]
    local answer = events.carry_out(e, barrier)
    if was_taken(answer) then leave(id, entry, queue.bytes[e]) end
    return answer
  end

  local function carry_out_new(e)
    local id = event_ids[e]
    local entry, event, parts, late, revocation = entry_with(stream, entries_of[id], events.fingerprints[e])
    if not entry then return events.carry_out(e, events.barrier) end
    -- What waits was taken into the queue before the barrier rose. See src/domain/queued.rs.
    local at, queued_at = parts[5], parts[6]
    events.revoked_before[e] = revocation
    local is_as_queued = events.time_of(e) == at + TIE_KEY_OF_EPOCH or records[keys[ids[e]]]
    local answer = is_as_queued and events.carry_out(e, barrier_of_queued(late))
    if not answer or answer[1] == REFUSED then return {WAITING, number_text(at), number_text(queued_at)} end
    if was_taken(answer) then leave(id, entry, bytes_of_entry(id, event)) end
    return answer
  end

  local function carry_out(e)
    local entry = queue and queue.entries[e] or ''
    local answer = entry == '' and carry_out_new(e) or carry_out_queued(e, entry)
    if entries_of[event_ids[e]] ~= '' and was_taken(answer) then remembered_longer[keys[ids[e]]] = true end
    return answer
  end

  local function leave_all()
    if #leaving > 0 then leave_queue(stream, index, state, leaving) end
  end

  return {carry_out = carry_out, leave = leave_all, remembered_longer = remembered_longer}
end
