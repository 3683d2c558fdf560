-- end_queued.lua: ends queued events that are not applied. Why a rule has refused an event is stored for a while; events
-- that an operator can fix become dead letters.
-- Uses: lib/slot.lua, lib/capture.lua, lib/queue.lua
--
-- Takes: 6 keys or more, 1 argument
-- KEYS[1] board, KEYS[2] registry, KEYS[3] queue, KEYS[4] ids, KEYS[5] state: see lib/queue.lua
-- KEYS[6] dead letters: stream, an entry for each, with the fields `reason`, `detail`, `entry` (its entry in the queue),
--         and then the fields of that entry
-- KEYS[7…] reasons of refusals: strings; how many events of a period were cut off, by the tags of shards: hashes
--
-- Names in capitals are in src/redis/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   lease        text; the number of the lease of the queue, under which the caller works
--   tag          the tag of the shard, under which it counts what was cut off
--   letters_max  how many dead letters there may be, and kept_ms: for how long each is kept
--   ends         list of
--     {ENDED, entry}                        it was taken elsewhere
--     {REFUSED, entry, key index, why, ms, {{key index, end}, …}}  `why` (text) is stored for `ms` (text). Of an event
--                                           before `final_until`, its periods with their ends (ms): it counts as cut off in
--                                           those that are final by now, if it is not after the mark of the closing
--     {DEAD, entry, reason, detail, 0 | 1}  1: it does not displace another dead letter
--
-- Reply: {'STALE'} the lease has another number | {'OK', one for each: 'OK' it has ended, 'GONE' it is not in the
--   queue, 'FULL' there is no room}
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids st:{b}:1:queue-state st:{b}:1:dead
--   ARGV {lease='1795305600123456', tag='b', letters_max=1000, kept_ms=604800000,
--          ends={{DEAD, '1-0', 'unreadable', 'event: …', 0}}}  reply {'OK', 'OK'}

local BOARD, REGISTRY, QUEUE, IDS, STATE, DEAD_LETTERS = unpack(KEYS)
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_queue()

local head = redis.call('HMGET', BOARD, 'queue:number', 'final_until', 'moving', 'queue:mark')
if head[1] ~= args.lease then return {'STALE'} end
local final_until, mark = tonumber(head[2] or '-inf'), head[4]
if head[3] then start_capture(head[3]) end

-- Keys that are only written: one of another type aborts the call here, before it has changed anything.
redis.call('HLEN', STATE)
redis.call('SCARD', REGISTRY)
redis.call('XLEN', DEAD_LETTERS)
redis.call('HLEN', IDS)
for _, one in ipairs(args.ends) do
  for _, period in ipairs(one[1] == REFUSED and one[6] or {}) do redis.call('HLEN', KEYS[period[1]]) end
end
if changes then redis.call('HLEN', changes) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Letters that are too old must not take up room.
local function drop_old_letters()
  for _, one in ipairs(args.ends) do
    if one[1] == DEAD then
      redis.call('XTRIM', DEAD_LETTERS, 'MINID', string.format('%d', now - args.kept_ms))
      return
    end
  end
end

-- A full shard drops only its oldest letter for a new one: after a move it may have more than are kept.
local function add_letter(reason, detail, entry, fields)
  redis.call('SADD', REGISTRY, DEAD_LETTERS)
  local kept = math.max(redis.call('XLEN', DEAD_LETTERS), args.letters_max)
  redis.call('XADD', DEAD_LETTERS, 'MAXLEN', kept, '*', 'reason', reason, 'detail', detail, 'entry', entry,
    unpack(fields))
  redis.call('PEXPIRE', DEAD_LETTERS, string.format('%d', args.kept_ms))
end

local function count_cut_off(key, ending)
  if ending > final_until then return end
  redis.call('HINCRBY', key, args.tag, 1)
  redis.call('SADD', REGISTRY, key)
  capture(KIND_CUT_OFF, key)
end

local leaving = {}

local function end_one(fate, entry, ...)
  local found = redis.call('XRANGE', QUEUE, entry, entry)[1]
  if not found then return 'GONE' end
  if fate == REFUSED then
    local key, why, ms, periods = ...
    redis.call('SET', KEYS[key], why, 'PX', ms)
    -- Entries after the mark were put back from the dead letters after the closing (replay.lua).
    local is_cut_off = mark and is_up_to(entry, mark)
    for _, period in ipairs(is_cut_off and periods or {}) do count_cut_off(KEYS[period[1]], period[2]) end
  elseif fate == DEAD then
    local reason, detail, waits = ...
    if waits == 1 and redis.call('XLEN', DEAD_LETTERS) >= args.letters_max then return 'FULL' end
    add_letter(reason, detail, entry, found[2])
  end
  local by_name = fields_by_name(found)
  local id, event = by_name.id or '', by_name.event or ''
  leaving[#leaving + 1] = {entry = entry, id = id, bytes = bytes_of_entry(id, event)}
  return 'OK'
end

drop_old_letters()
local reply = {'OK'}
for index, one in ipairs(args.ends) do reply[index + 1] = end_one(unpack(one)) end
if #leaving > 0 then leave_queue(QUEUE, IDS, STATE, leaving) end
return reply
