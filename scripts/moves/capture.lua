-- capture.lua: makes a shard note its changes from now on, because its data is being copied to other shards
-- (lib/capture.lua).
-- Uses: lib/generation.lua
--
-- Takes: 4 keys, 1 argument
-- KEYS[1] head of the shard, or board; KEYS[2] registry; KEYS[3] changes; KEYS[4] copied
-- ARGV[1] the generation of the board
--
-- Reply: {'OK'} | {'STALE'} the board was deleted
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:changes st:{b}:1:copied  ARGV '1'  reply {'OK'}

local HEAD, REGISTRY, CHANGES, COPIED, generation = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]

local version = redis.call('HGET', HEAD, 'version')
if not is_of_generation(version, generation) then return {'STALE'} end
redis.call('HSET', HEAD, 'moving', cmsgpack.pack({CHANGES, COPIED}))
redis.call('SADD', REGISTRY, CHANGES, COPIED)
return {'OK'}
