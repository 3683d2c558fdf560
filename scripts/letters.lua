-- letters.lua: reads dead letters of a shard (end_queued.lua), the oldest first.
--
-- KEYS[1] board, KEYS[2] dead letters
-- ARGV[1] version, as in put.lua; ARGV[2] the entry that they begin with, or behind which they do; ARGV[3] how many at the most
--
-- Reply: {'STALE'} | {'OK', {entry, {name, value, …}}, …}
-- Example: KEYS st:{b} st:{b}:1:dead  ARGV '1-1' '1795305600123-0' '100'  reply {'OK', {'1795305600123-0', {'reason', 'failed', …}}}

if #KEYS ~= 2 or #ARGV ~= 3 then return redis.error_reply('ERR letters.lua: 2 keys, 3 arguments') end
local BOARD, DEAD_LETTERS = KEYS[1], KEYS[2]
local version, first, count = unpack(ARGV)

if redis.call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
return {'OK', unpack(redis.call('XRANGE', DEAD_LETTERS, first, '+', 'COUNT', count))}
