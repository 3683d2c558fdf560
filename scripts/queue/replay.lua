-- replay.lua: puts the event of a dead letter back into the queue of its shard, unchanged, and removes the letter.
-- Uses: lib/slot.lua, lib/keys.lua, lib/erasures.lua, lib/queue.lua
--
-- Both are one step. So a caller that repeats the call after a lost reply finds no letter. An event that already waits
-- under its id with its content is not put in twice. An event that the script can't read is put back as stored: another
-- release may read it.
--
-- Takes: 6 keys, 1 argument
-- KEYS[1]  board         hash: `version`, `used`, `erased`
-- KEYS[2]  registry      set: names of the keys that hold the board's data; the key of the erasures follows from it
-- KEYS[3]  queue         stream, KEYS[4] ids, KEYS[5] state: see lib/queue.lua
-- KEYS[6]  dead letters  stream: see end_queued.lua
--
-- Names in capitals are in src/redis/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   version, epoch, bytes_max, room, remember, revocation   as in put.lua
--   letter   its entry among the dead letters
--
-- Reply: {'OK', by how many bytes the queue grew} | {'STALE'} | {'UNINDEXED', epoch}: as in put.lua; else nothing done:
--   {'GONE'}             there is no such letter, or it is empty
--   {'ERASING'}          data of its erased member remains: remove it (forget.lua)
--   {'ERASED', instant}  its member was erased after the event was queued, at this instant: a tie key of `ties: first`,
--                        text
--   {'NO_ROOM'}          there is no room for it in the queue
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:queue-ids st:{b}:1:queue-state st:{b}:1:dead
--   ARGV {version='1-1', epoch='0', bytes_max=1000, room=1000, remember='1000', revocation=0, letter='1795305600123-0'}
--   reply {'OK', 154}

local BOARD, REGISTRY, QUEUE, IDS, STATE, DEAD_LETTERS = unpack(KEYS)
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_queue()

-- A letter has its own three fields before those of the queue's entry.
local OWN_VALUES = 6

local board = redis.call('HMGET', BOARD, 'version', 'used', 'erased')
if board[1] ~= args.version then return {'STALE'} end
local letter = redis.call('XRANGE', DEAD_LETTERS, args.letter, args.letter)[1]
if not letter or #letter[2] <= OWN_VALUES then return {'GONE'} end

local by_name = fields_by_name(letter, OWN_VALUES + 1)
local id, event = by_name.id or '', by_name.event or ''
local parts = read_event(event) or {}
-- See src/domain/queued.rs.
local fingerprint, member, queued_at = parts[1], parts[2], parts[6]

if board[3] and type(member) == 'string' then
  load_hides()
  local erasure = load_erasures(REGISTRY, board[3], {member})[1]
  if erasure and erasure.is_pending then return {'ERASING'} end
  if erasure and type(queued_at) == 'number' and queued_at + TIE_KEY_OF_EPOCH <= erasure.instant then
    return {'ERASED', string.format('%d', erasure.instant)}
  end
end

local entries = redis.call('HGET', IDS, id) or nil
local bytes = 0
if not (fingerprint and entry_with(QUEUE, entries, fingerprint)) then
  local queue_bytes, epoch = open_queue(BOARD, REGISTRY, QUEUE, IDS, STATE, args.epoch)
  if not queue_bytes then return {'UNINDEXED', epoch} end
  bytes = bytes_of_entry(id, event)
  if bytes > math.min(args.room, args.bytes_max - queue_bytes) then return {'NO_ROOM'} end
  -- As it is stored, but it comes after all revocations.
  local fields = {}
  for place = OWN_VALUES + 1, #letter[2], 2 do
    local name, value = letter[2][place], letter[2][place + 1]
    if name ~= 'revocation' then fields[#fields + 1], fields[#fields + 2] = name, value end
  end
  if args.revocation > 0 then fields[#fields + 1], fields[#fields + 2] = 'revocation', args.revocation end
  local entry = redis.call('XADD', QUEUE, '*', unpack(fields))
  redis.call('PEXPIRE', beside_registry(REGISTRY, KIND_EVENT_ID .. ':') .. id, args.remember, 'GT')
  redis.call('HSET', IDS, id, entries and entries .. ' ' .. entry or entry)
  redis.call('HINCRBY', STATE, 'bytes', bytes)
  if board[2] ~= args.version then redis.call('HSET', BOARD, 'used', args.version) end
end
redis.call('XDEL', DEAD_LETTERS, args.letter)
return {'OK', bytes}
