-- delete.lua: deletes a board's definition, if it is still the one that the caller saw, and leaves a proof of that. From then
-- on no script reads or writes what is under the board's own tag. The caller then closes its shards (shard.lua), has its data
-- unlinked (purge.lua, sweep.lua), and removes the field `unfinished:…`.
-- Uses: lib/slot.lua
--
-- Takes: 1 key, 4 arguments
-- KEYS[1] board. For a deleted board it has the fields `deleted`, the stamp of the last deletion of a board of that name, and
--         `unfinished:` with that stamp, until the caller has finished. A new board of that name keeps `deleted`
-- ARGV[1] the version that the caller saw
-- ARGV[2] the stamp of the deletion
-- ARGV[3] what has to be done to finish it, JSON (src/core/board/deletions.rs)
-- ARGV[4] for how long the proof is kept, in ms
--
-- Reply: {'OK'} | {'CHANGED'}
-- Example: KEYS st:{b}  ARGV '1-3' '28080000123456' '{…}' '604800000'  reply {'OK'}

local BOARD, seen, stamp, unfinished, lasts = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
require_slot(BOARD)

if redis.call('HGET', BOARD, 'version') ~= seen then return {'CHANGED'} end
redis.call('DEL', BOARD)
redis.call('HSET', BOARD, 'deleted', stamp, 'unfinished:' .. stamp, unfinished)
redis.call('PEXPIRE', BOARD, lasts)
return {'OK'}
