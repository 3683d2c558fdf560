-- waiting.lua: reads the events that wait under an id, except those about to be removed with their member (forget.lua).
--
-- KEYS[1] board, KEYS[2] registry, from which the key of erasing members follows, KEYS[3] queue, KEYS[4] ids: see
--         lib/queue.lua
-- ARGV[1] the id
--
-- Reply: list of the events without their ids, as stored
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids  ARGV 'x1'  reply {event}

if #KEYS ~= 4 or #ARGV ~= 1 then return redis.error_reply('ERR waiting.lua: 4 keys, 1 argument') end
local BOARD, REGISTRY, QUEUE, IDS = unpack(KEYS)

local text = redis.call('HGET', IDS, ARGV[1])
if not text then return {} end
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
if #events == 0 or redis.call('HEXISTS', BOARD, 'erased') == 0 then return events end

local told = {}
for index, mark in ipairs(erasing_marks(REGISTRY, members)) do
  if not (mark and is_up_to(entries[index], mark)) then told[#told + 1] = events[index] end
end
return told
