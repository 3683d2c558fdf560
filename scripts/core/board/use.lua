-- use.lua: notes that a board of several shards has events of this version, before a shard gets the first one. From then on
-- define.lua refuses changes of the definition that would alter stored data.
--
-- Takes: 1 key, 1 argument
-- KEYS[1] board
-- ARGV[1] the version of its definition that the events are planned for
--
-- Reply: {'OK'} | {'STALE'} another version is stored
-- Example: KEYS st:{b}  ARGV '1-1'  reply {'OK'}

local BOARD, version = KEYS[1], ARGV[1]

if redis.call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
redis.call('HSET', BOARD, 'used', version)
return {'OK'}
