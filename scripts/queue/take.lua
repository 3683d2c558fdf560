-- take.lua: takes records of a partition of the log into the queue of a shard, each once, whichever instance calls, and however often.
-- Uses: lib/slot.lua, lib/queue.lua, lib/putting.lua, lib/intake.lua
--
-- The caller has all records of this shard from the offset `base` up to `upto`, except those that it has had taken before.
-- The shard skips what it has taken. If there is a gap between the two, Redis has lost what it knew, and the caller has to
-- read again. So nothing is lost or taken twice, whatever is committed to the log, and whichever instances read the same
-- partition.
--
-- No barrier refuses a record: a closing waits for the ends of the log (close_shard.lua). Records from these ends on are
-- noted as late for the closing, so that they do not count for what it makes final, whenever they are applied.
--
-- Takes: 6 keys, 1 argument or more
-- KEYS[1]  board     hash: `version`, `used`, `queue:held`, `final_until`, `queue:ends`
-- KEYS[2]  registry  set: names of the keys that hold the board's data
-- KEYS[3]  queue     stream, KEYS[4] ids, KEYS[5] state: see lib/queue.lua
-- KEYS[6]  intake    hash: see lib/intake.lua
--
-- The script also touches the records of the events' ids, whose keys follow from the registry's.
--
-- Names in capitals are in src/redis/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   version, epoch, bytes_max, room, remember   as in put.lua; there is a `revocation` for each event below
--   partition   text
--   base        the offset from which the caller has all records of the shard; upto: up to which; upto >= base
--   first       the first offset that the log had when the caller began: earlier ones can't be read again
--   is_known    whether the shard has answered the caller before, or knew the partition when the caller began
--   former      map, sharding -> which of its shards each of the events was in
-- and the events, in columns, in the order of their offsets; there may be none:
--   ids, offsets
--   revocations  the last revocation before each, 0 for none
-- ARGV[2…] the events without their ids, as the queue stores them
--
-- Reply: {'OK', next offset of the partition, by how many bytes the queue grew}: if the offset is less than `upto`, there
--   is no room for the event there | {'STALE'} | {'UNINDEXED', epoch}: as in put.lua; otherwise nothing was done:
--   {'HELD'}         the board moves, and takes nothing until it has moved
--   {'FORMER', sharding, …}   `former` lacks these
--   {'GONE_BACK'}    there is a gap
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids st:{b}:1:queue-state st:{b}:1:intake
--   ARGV {version='1-1', epoch='0', bytes_max=1000, room=1000, remember='1000', partition='events/3', base=7, upto=9,
--     first=0, is_known=false, former={}, ids={'x1'}, offsets={8}, revocations={0}} event  reply {'OK', '9', 154}

local BOARD, REGISTRY, QUEUE, IDS, STATE, INTAKE = unpack(KEYS)
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
local ids, offsets, PARTITION = args.ids, args.offsets, args.partition
load_queue()
load_intake()

local board = redis.call('HMGET', BOARD, 'version', 'used', 'queue:held', 'final_until', 'queue:ends')
if board[1] ~= args.version then return {'STALE'} end
if #ids > 0 and board[3] == args.version then return {'HELD'} end

local known = redis.call('HMGET', INTAKE, PARTITION, 'former:' .. PARTITION, 'ends')
local own, former = tonumber(known[1] or nil), known[2] and cmsgpack.unpack(known[2])

-- Everything before this offset was taken; nil if nothing is known.
local function taken_by_former()
  local _, taken = unpack(former[#former])
  local least = math.min(unpack(taken))
  return least >= 0 and least or nil
end
local taken = own or former and taken_by_former()
if taken and math.max(taken, args.first) < args.base or args.is_known and not taken then return {'GONE_BACK'} end

-- The events that were not taken, and the reply that names the former shardings which the caller has to send.
local left, lacking = {}, {'FORMER'}
for _, sharding in ipairs(former or {}) do
  if not args.former[sharding[1]] then lacking[#lacking + 1] = sharding[1] end
end
if #ids > 0 and #lacking > 1 then return lacking end
local function is_taken(e)
  if own and offsets[e] < own then return true end
  for _, sharding in ipairs(former or {}) do
    local name, of_shards = unpack(sharding)
    if offsets[e] < of_shards[args.former[name][e] + 1] then return true end
  end
  return false
end
for e = 1, #ids do
  if not is_taken(e) then left[#left + 1] = e end
end

-- The offset from which on records are late for the current closing, and its barrier; nil if there is none.
local late_from, late = known[3] and cmsgpack.unpack(known[3])[PARTITION] or 0, board[5] or nil
if late and tonumber(board[4] or '-inf') >= tonumber(late) then late = nil end

local reached, bytes = math.max(own or 0, args.upto), 0
if #left > 0 then
  local queue_bytes, epoch = open_queue(BOARD, REGISTRY, QUEUE, IDS, STATE, args.epoch)
  if not queue_bytes then return {'UNINDEXED', epoch} end
  local of_left = {}
  for index, e in ipairs(left) do of_left[index] = ids[e] end
  local putting = begin_putting(QUEUE, IDS, of_left, math.min(args.room, args.bytes_max - queue_bytes))
  for _, e in ipairs(left) do
    local late_here = offsets[e] >= late_from and late or '0'
    local waits, _, its_late = known_event(putting, ids[e], ARGV[e + 1])
    -- What waits as late may yet be refused, and this event may not.
    local is_there = waits and (late_here ~= '0' or its_late == 0)
    if not is_there and not put_event(putting, ids[e], ARGV[e + 1], args.revocations[e], late_here) then
      reached = offsets[e]
      break
    end
  end
  end_putting(putting, BOARD, REGISTRY, STATE, board[2], args.version, args.remember)
  bytes = putting.bytes
end

-- Written even if unchanged: if the caller waits for replicas after this call, they have it.
local text = string.format('%d', reached)
if reached ~= own or #ids > 0 then redis.call('HSET', INTAKE, PARTITION, text) end
if not own then redis.call('SADD', REGISTRY, INTAKE) end
if former then
  local most = 0
  for _, sharding in ipairs(former) do most = math.max(most, unpack(sharding[2])) end
  if reached >= most then redis.call('HDEL', INTAKE, 'former:' .. PARTITION) end
end
reach_end(BOARD, QUEUE, INTAKE, PARTITION, reached, known[3])
return {'OK', text, bytes}
