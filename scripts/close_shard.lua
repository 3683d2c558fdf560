-- close_shard.lua: raises the barrier of a shard: the field `closed_until` of its head. The shard takes no event any more whose
-- `at` lies before it, whoever has planned the event, and whenever (apply.lua), and puts none into its queue (put.lua). A barrier never
-- falls.
--
-- What was in the queue by then counts, since it was promised that it is judged as of its time. So the script notes the last entry of the
-- queue, the *mark*. As long as anything up to the mark waits, the period is not final. Therefore two instants: `closed_until` is what
-- new events are compared with; `final_until` is what events are compared with that come out of the queue.
--
-- A barrier that only the primary has is lost if the primary fails. So reads do not go by it: they call final what ends up to the
-- field `final_until` (read.lua). It follows the barrier once as many replicas have that as have to, and the queue is empty up to the mark,
-- or the closing has waited for that as long as it may: until `queue:cut_at`. What is left then is refused when it is to be applied.
--
-- Where queued events come through a log, some are there that were appended before the barrier stood, and have not come into the queue. They
-- count, too. So the closing asks the log for its ends once the barrier stands, and the mark is noted when the shard has taken the records
-- up to there (lib/intake.lua).
--
-- Only a closing calls this. A move copies the barrier to the new shards before it opens them (copy_in.lua). So no later sharding
-- takes what this one refuses. A move does that when the old queues are empty, so no mark goes along; the ends are asked anew.
--
-- KEYS[1]  head of the shard, or board: hash with `version`
-- KEYS[2]  registry: set
-- KEYS[3]  queue: stream (lib/queue.lua)
-- KEYS[4]  intake: hash (lib/intake.lua)
-- ARGV[1]  the version, as in apply.lua
-- ARGV[2]  the barrier, in ms since the epoch
-- ARGV[3]  '1': replicas have this barrier, or none has to have it; '0': the caller finds that out next
-- ARGV[4]  the time now, in ms since the epoch, by a clock that the caller trusts; ARGV[5] how many ms it waits for the queue at the most,
--          from the first call on that says so. Both '': it waits on
-- ARGV[6]  '': queued events come through no log; 'log': they do; or MessagePack of a map, partition -> next offset: these are its ends, which
--          were asked after a reply of ENDS
--
-- Reply: {'STALE'} | {'ENDS'}: the barrier is as high, or higher; call again with the ends of the log | {'LOG'}, {'QUEUE'}: the
--   same, and it is waited for something there up to the mark; `final_until` is as it was | {'OK'}: the barrier is as high, or higher
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:queue st:{b}:1:intake  ARGV '1-1' '1795305600000' '1' '' '' ''  reply {'OK'}

if #KEYS ~= 4 or #ARGV ~= 6 then return redis.error_reply('ERR close_shard.lua: 4 keys, 6 arguments') end
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
  -- Also if it is the same: if the caller waits for replicas after this call, the replicas have it.
  redis.call('HSET', HEAD, field, is_below(known) and barrier or known)
end

-- Nothing that ends up to a lower barrier than the one before waits for more.
local waits, cut_at = is_below(head[3]), head[4]
local first = waits and first_entry(QUEUE)
if waits and is_below(head[2]) then
  if first then note_mark(HEAD, QUEUE) end
  if cut_at then redis.call('HDEL', HEAD, 'queue:cut_at') end
  cut_at = nil
end
raise('closed_until', head[2])

-- Whether the closing waits for no more.
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
