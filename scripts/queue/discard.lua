-- discard.lua: removes a dead letter of a shard (end_queued.lua).
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1] board, KEYS[2] dead letters
-- ARGV[1] version, as in put.lua: a letter that was copied to another shard is removed there; ARGV[2] its entry
--
-- Reply: {'STALE'} | {'OK', '1' if it existed}
-- Example: KEYS st:{b} st:{b}:1:dead  ARGV '1-1' '1795305600123-0'  reply {'OK', '1'}

local BOARD, DEAD_LETTERS = KEYS[1], KEYS[2]
local version, letter = unpack(ARGV)

if redis.call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
return {'OK', tostring(redis.call('XDEL', DEAD_LETTERS, letter))}
