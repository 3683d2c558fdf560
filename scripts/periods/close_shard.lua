-- close_shard.lua: raises the barrier of a shard: the field `closed_until` of its head. From then on the shard takes no
-- event whose `at` is before it, no matter which instance planned the event, or when (apply.lua), and puts none into its
-- queue (put.lua). A barrier never falls.
-- Uses: lib/queue.lua, lib/intake.lua
--
-- Events that were in the queue by then count, because a queued event is judged as of its time. So the script notes the
-- last entry of the queue, the *mark*. As long as anything up to the mark waits, the period is not final. Therefore there
-- are two instants: new events are compared with `closed_until`, events from the queue with `final_until`.
--
-- A barrier that only the primary has is lost if the primary fails. So reads ignore it: they call final what ends up to the
-- field `final_until` (read.lua). That follows the barrier once enough replicas have it, and the queue is empty up to the
-- mark or the closing has waited its maximum time for that: until `queue:cut_at`. Events that remain then are refused when they
-- are reached.
--
-- Where events are queued through a log, some were appended before the barrier was raised but have not reached the queue
-- yet. They count, too. So after raising the barrier the closing asks the log for its ends, and the mark is noted once the
-- shard has taken the records up to there (lib/intake.lua).
--
-- Only a closing calls this. A move copies the barrier to the new shards before it opens them (copy_in.lua), so no later
-- sharding takes what this one refuses. The old queues are empty then, so no mark is copied; the ends are asked again.
--
-- Takes: 4 keys, 6 arguments
-- KEYS[1]  head of the shard, or board: hash with `version`
-- KEYS[2]  registry: set
-- KEYS[3]  queue: stream (lib/queue.lua)
-- KEYS[4]  intake: hash (lib/intake.lua)
-- ARGV[1]  the version, as in apply.lua
-- ARGV[2]  the barrier, in ms since the epoch
-- ARGV[3]  '1': replicas have this barrier, or none has to have it; '0': the caller will find that out next
-- ARGV[4]  the time now, in ms since the epoch, by a clock that the caller trusts; ARGV[5] how many ms it waits for the
--          queue at most, counted from the first call that gives them. Both '': no limit
-- ARGV[6]  '': events are not queued through a log; 'log': they are; or MessagePack of a map, partition -> next offset: the
--          ends of the log, asked after a reply of ENDS
--
-- Reply: {'STALE'} | {'ENDS'}: the barrier is at least this high; call again with the ends of the log | {'LOG'}, {'QUEUE'}:
--   the same, but records there, up to the mark, are still waited for; `final_until` is unchanged | {'OK'}: the same, and
--   nothing is waited for
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:intake  ARGV '1-1' '1795305600000' '1' '' '' ''  reply {'OK'}

local HEAD, REGISTRY, QUEUE, INTAKE = unpack(KEYS)
local version, barrier, is_confirmed, log = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[6]
local now, max_delay = tonumber(ARGV[4]), tonumber(ARGV[5])
load_queue()
load_intake()

local head = redis.call('HMGET', HEAD, 'version', 'closed_until', 'final_until', 'queue:cut_at', 'queue:ends')
if head[1] ~= version then return {'STALE'} end

local function is_below(known)
  return not known or tonumber(known) < tonumber(barrier)
end

local function raise(field, known)
  -- Written even if unchanged: if the caller waits for replicas after this call, the replicas have it.
  redis.call('HSET', HEAD, field, is_below(known) and barrier or known)
end

-- Nothing more is waited for where periods end up to a lower barrier than the one before.
local waits, cut_at = is_below(head[3]), head[4]
local first = waits and first_entry(QUEUE)
if waits and is_below(head[2]) then
  if first then note_mark(HEAD, QUEUE) end
  if cut_at then redis.call('HDEL', HEAD, 'queue:cut_at') end
  cut_at = nil
end
raise('closed_until', head[2])

-- Whether the closing has waited long enough.
local function is_over()
  if not now then return false end
  if not cut_at then
    cut_at = now + max_delay
    redis.call('HSET', HEAD, 'queue:cut_at', string.format('%d', cut_at))
  end
  return now >= tonumber(cut_at)
end

-- What the closing waits for: the code of the reply; nil for nothing.
local function awaited()
  if log ~= '' and is_below(head[5]) then
    if log == 'log' then return 'ENDS' end
    await_ends(HEAD, REGISTRY, QUEUE, INTAKE, barrier, cmsgpack.unpack(log))
    head[5] = barrier
  end
  if not is_below(head[5]) and redis.call('HEXISTS', INTAKE, 'ends') == 1 then return 'LOG' end
  local mark = first and redis.call('HGET', HEAD, 'queue:mark')
  if mark and is_up_to(first, mark) then return 'QUEUE' end
end

if waits then
  local code = awaited()
  if code and not is_over() then return {code} end
end
if is_confirmed then raise('final_until', head[3]) end
return {'OK'}
