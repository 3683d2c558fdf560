-- note_revocation.lua: writes and removes revocations of a board (src/corrections/revocations/).
--
-- Takes: 3 keys, 1 argument or more
-- KEYS[1] board, KEYS[2] registry of results, KEYS[3] revocations: hash, name -> JSON; `name:events` -> keyed hashes of the
--         events that it names
-- ARGV[1] MessagePack of a map: version of the board's definition; removed: list of fields
-- ARGV[2…] alternately fields and values
--
-- Reply: {'STALE'}: the board has another version | {'OK'}
-- Example: KEYS st:{b} st:{b}:1:results-keys st:{b}:1:revocations  ARGV {version='1-1', removed={}} '5f…' '{…}'
--   reply {'OK'}

local BOARD, REGISTRY, REVOCATIONS = KEYS[1], KEYS[2], KEYS[3]
local args = cmsgpack.unpack(ARGV[1])
if redis.call('HGET', BOARD, 'version') ~= args.version then return {'STALE'} end
if #args.removed > 0 then redis.call('HDEL', REVOCATIONS, unpack(args.removed)) end
if #ARGV > 1 then redis.call('HSET', REVOCATIONS, unpack(ARGV, 2)) end
redis.call('SADD', REGISTRY, REVOCATIONS)
return {'OK'}
