-- lib/capture.lua: noting what changes in a shard while its data is being copied to other shards.
--
-- During that time the shard's head has the field `moving`, MessagePack of the names of two keys, {changes, copied}
-- (capture.lua). Every script that changes the shard notes the change there in the same step (src/moves/mod.rs):
--   changes   hash: `kind␟key`, or of a standing `kind␟sorted set␟member` -> how often that was noted
--   copied    hash: sorted set of a standing that was copied -> 'done'; 'dropped' once it was dropped, since a standing
--             that is built in its place later is not noted
-- purge.lua removes both keys and the field: later scripts must not make the keys again.

local changes, copied

local function start_capture(moving)
  changes, copied = unpack(cmsgpack.unpack(moving))
end

-- Notes only standings that are dropped.
local function start_capture_of_drops(moving)
  copied = cmsgpack.unpack(moving)[2]
end

local function capture(kind, key, member)
  if not changes then return end
  local change = kind .. SEPARATOR .. key
  if member then change = change .. SEPARATOR .. member end
  redis.call('HINCRBY', changes, change, 1)
end

local function capture_drop(zset)
  if copied then redis.call('HSET', copied, zset, 'dropped') end
end
