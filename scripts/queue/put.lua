-- put.lua: puts events into the queue of a shard, in which they wait to be applied.
-- Uses: lib/slot.lua, lib/queue.lua, lib/putting.lua
--
-- The script only sees this slot. Before a queue has entries, the index of queues, in another slot, has to name it. So
-- while the index may not name it, the script does nothing and replies UNINDEXED with the epoch of the queue. The caller
-- adds the queue to the index under this epoch (list_queue.lua), and calls again. A caller that removes the queue from the
-- index first raises the epoch (clear_queue.lua), and removes only what was added under an earlier one (unlist_queue.lua).
-- So a slow caller is refused here, or removes nothing there.
--
-- Takes: 5 keys, 2 arguments or more
-- KEYS[1]  board     hash: `version`, `used`, `closed_until`
-- KEYS[2]  registry  set: names of the keys that hold the board's data
-- KEYS[3]  queue     stream, KEYS[4] ids, KEYS[5] state: see lib/queue.lua
--
-- The script also touches the records of the events' ids, whose keys follow from the registry's.
--
-- Names in capitals are in src/redis/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   version       text; what KEYS[1] must hold, or else the reply is STALE
--   epoch         text; the epoch under which the caller has put the queue into the index, '' for none
--   bytes_max     how many bytes the queue may have
--   room          how many bytes there is room for in all queues together
--   confirm       as in apply.lua
--   remember      text; ms for which known ids under which an event is put are remembered at least, from now on: until the
--                 event has certainly been applied
--   revocation    the last revocation of events (lib/history.lua), 0 for none
--   ids           of the events
-- ARGV[2…] the events without their ids, as the queue stores them
--
-- Reply: {'STALE'} | {'UNINDEXED', epoch} | {'OK', an event by its place, its outcome, …}. Events without an outcome are
--   now queued:
--   {'KNOWN', event}  it was in the queue, under this id and with this content: the event as stored
--   'BEFORE_BARRIER'  it is before the barrier of the shard (close_shard.lua), and is not in the queue
--   'NO_ROOM'         there is no room for it, and it is not in the queue
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids st:{b}:1:queue-state
--   ARGV {version='1-1', epoch='0', bytes_max=1000, room=1000, confirm=false, remember='1000', revocation=0, ids={'x1'}} event
--   reply {'OK'}

local BOARD, REGISTRY, QUEUE, IDS, STATE = unpack(KEYS)
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_queue()

local board = redis.call('HMGET', BOARD, 'version', 'used', 'closed_until')
if board[1] ~= args.version then return {'STALE'} end
local barrier = board[3] and tonumber(board[3])
local queue_bytes, epoch = open_queue(BOARD, REGISTRY, QUEUE, IDS, STATE, args.epoch)
if not queue_bytes then return {'UNINDEXED', epoch} end
local putting = begin_putting(QUEUE, IDS, args.ids, math.min(args.room, args.bytes_max - queue_bytes))

local reply = {'OK'}
local function tell(e, outcome)
  reply[#reply + 1], reply[#reply + 2] = e, outcome
end
for e, id in ipairs(args.ids) do
  local event = ARGV[e + 1]
  local known = known_event(putting, id, event)
  if known then
    -- After this write the replicas have what was put before, wherever that was.
    if args.confirm then write_id(putting, id) end
    tell(e, {'KNOWN', known})
  elseif barrier and instant_of(event) < barrier * 1000 then
    tell(e, 'BEFORE_BARRIER')
  elseif not put_event(putting, id, event, args.revocation) then
    tell(e, 'NO_ROOM')
  end
end
end_putting(putting, BOARD, REGISTRY, STATE, board[2], args.version, args.remember)
return reply
