-- lib/moving.lua: noting what changes in a shard while its data is being copied to other shards.
--
-- While the shard's head has the field `moving`, every change is noted in the same step (src/engine/moves.rs):
--   …:changes   hash: `sorted set of the standing␟member`, or the key of a turnout -> how often that was noted
--   …:copied    hash: sorted set of a standing that was copied -> 'done'; 'void' once it was dropped, since what is
--               built in its place later is not noted
-- Both keys lie beside the registry, `…:keys`. purge.lua takes them away, and the field with them: who comes later must
-- not make them again.

local changes, copied

local function beside(registry, name)
  return string.sub(registry, 1, -#'keys' - 1) .. name
end

local function note_drops(registry)
  copied = beside(registry, 'copied')
end

local function note_changes(registry)
  changes = beside(registry, 'changes')
  note_drops(registry)
end

local function has_changed(what)
  if changes then redis.call('HINCRBY', changes, what, 1) end
end

local function was_dropped(zset)
  if copied then redis.call('HSET', copied, zset, 'void') end
end
