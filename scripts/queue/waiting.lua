-- waiting.lua: reads the events that wait under an id, except those about to be removed with their member (forget.lua).
-- Uses: lib/queue.lua, lib/generation.lua
--
-- Takes: 4 keys, 2 arguments
-- KEYS[1] board, KEYS[2] registry, from which the key of erasing members follows, KEYS[3] queue, KEYS[4] ids: see
--         lib/queue.lua
-- ARGV[1] the generation of the board, which may have moved away from the shard; ARGV[2] the id
--
-- Reply: {'STALE'} the board was deleted, or {'OK', the events without their ids, as stored…}
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids  ARGV '1' 'x1'  reply {'OK', event}

local BOARD, REGISTRY, QUEUE, IDS = unpack(KEYS)

local head = redis.call('HMGET', BOARD, 'version', 'erased')
if not is_of_generation(head[1], ARGV[1]) then return {'STALE'} end
local told = {'OK'}
local text = redis.call('HGET', IDS, ARGV[2])
if not text then return told end
load_queue()
local entries, events, members = {}, {}, {}
for entry in string.gmatch(text, '%S+') do
  local found = redis.call('XRANGE', QUEUE, entry, entry)[1]
  local event = found and fields_by_name(found).event
  if event then
    entries[#entries + 1], events[#events + 1] = entry, event
    members[#members + 1] = member_of(event)
  end
end
local marks = head[2] and #events > 0 and erasing_marks(REGISTRY, members) or {}
for index, event in ipairs(events) do
  local mark = marks[index]
  if not (mark and is_up_to(entries[index], mark)) then told[#told + 1] = event end
end
return told
