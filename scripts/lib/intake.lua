-- lib/intake.lua: what a shard knows of the log whose records go into its queue.
-- Loader: load_intake
-- Uses: lib/queue.lua
--
-- The hash `intake`, with a partition as its text, `events/3`:
--   <partition>         the next offset: all earlier records of the shard are, or were, in its queue
--   former:<partition>  MessagePack of a list of {sharding, {next offset of each of its shards, -1: none}}, oldest first:
--                       the offsets of former shards when the board moved away from them. Deleted when the shard has
--                       reached them
--   ends                MessagePack of a map, partition -> offset: what the closing whose barrier is in the field
--                       `queue:ends` of the head waits for. A partition is removed when the shard has reached its offset,
--                       and the field with the last one

-- Notes the last entry of the queue: up to it are the records that were in the log before a closing.
local function note_mark(head, queue)
  local mark = last_entry(queue)
  if mark then redis.call('HSET', head, 'queue:mark', mark) else redis.call('HDEL', head, 'queue:mark') end
end

-- Notes what a closing waits for after raising the barrier: `ends`, partition -> offset.
local function await_ends(head, registry, queue, intake, barrier, ends)
  local names, waiting = {}, {}
  for partition in pairs(ends) do names[#names + 1] = partition end
  for index, offset in ipairs(#names > 0 and redis.call('HMGET', intake, unpack(names)) or {}) do
    local partition = names[index]
    if tonumber(offset or 0) < ends[partition] then waiting[partition] = ends[partition] end
  end
  redis.call('HSET', head, 'queue:ends', barrier)
  if next(waiting) then
    -- Greater than every entry: the mark is not known yet, and what is cut off meanwhile counts as before it.
    redis.call('HSET', head, 'queue:mark', '18446744073709551615-0')
    redis.call('HSET', intake, 'ends', cmsgpack.pack(waiting))
    redis.call('SADD', registry, intake)
  else
    note_mark(head, queue)
    redis.call('HDEL', intake, 'ends')
  end
end

-- Notes that the shard has reached an offset of a partition. `ends`: the field, or nil.
local function reach_end(head, queue, intake, partition, offset, ends)
  local waiting = ends and cmsgpack.unpack(ends)
  if not waiting or not waiting[partition] or offset < waiting[partition] then return end
  waiting[partition] = nil
  if next(waiting) then
    redis.call('HSET', intake, 'ends', cmsgpack.pack(waiting))
  else
    redis.call('HDEL', intake, 'ends')
    note_mark(head, queue)
  end
end
