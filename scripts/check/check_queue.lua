-- check_queue.lua: compares the keys of a queue (lib/queue.lua), and on request repairs what follows from the stream. An
-- event that the stream has lost is noted until its note may be removed: then it can be sent again under its id.
-- Uses: lib/standing.lua, lib/check.lua, lib/queue.lua
--
-- Takes: 4 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] queue; KEYS[3] ids; KEYS[4] state
-- ARGV[1]  MessagePack of a map: generation, revision of the definition that the caller uses; repair: see lib/check.lua;
--          count: a queue with more entries is not checked
--
-- Reply: {'STALE'} | {'OK', how many entries there are, '1' if checked, '0' if too many, difference, …}, see check.lua:
--   queue_bytes  stored bytes; bytes of the entries
--   queue_id     id of an event; its entries as stored; its entries in the stream
-- Example: KEYS st:{b} st:{b}:1:queue st:{b}:1:queue-ids st:{b}:1:queue-state
--   reply {'OK', '2', '1', {'queue_bytes', 0, '0', '260'}}

local HEAD, QUEUE, IDS, STATE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local args = cmsgpack.unpack(ARGV[1])
load_queue()

if not is_in_use(call('HGET', HEAD, 'version'), args.generation, args.revision) then return {'STALE'} end
may = args.repair
local count = call('XLEN', QUEUE)
if count > args.count or call('HLEN', IDS) > args.count then return {'OK', number_text(count), '0'} end

local bytes, entries_of = 0, {}
for _, found in ipairs(call('XRANGE', QUEUE, '-', '+')) do
  local fields = fields_by_name(found)
  local id = fields.id or ''
  bytes = bytes + bytes_of_entry(id, fields.event or '')
  entries_of[id] = entries_of[id] and entries_of[id] .. ' ' .. found[1] or found[1]
end

local stored = call('HGET', STATE, 'bytes') or '0'
if tonumber(stored) ~= bytes then
  local outcome = by_command(writing(true), 'HSET', STATE, 'bytes', number_text(bytes))
  differs('queue_bytes', outcome, stored, number_text(bytes))
end

local function compare(id, text)
  local right = entries_of[id]
  entries_of[id] = nil
  if text == right then return end
  local outcome
  if right then
    outcome = by_command(writing(true), 'HSET', IDS, id, right)
  else
    outcome = by_command(removing(true), 'HDEL', IDS, id)
  end
  differs('queue_id', outcome, id, text or '', right or '')
end

local ids = call('HGETALL', IDS)
for place = 1, #ids, 2 do compare(ids[place], ids[place + 1]) end
local missing = {}
for id in pairs(entries_of) do missing[#missing + 1] = id end
for _, id in ipairs(missing) do compare(id, nil) end
return {'OK', number_text(count), '1', unpack(differences)}
