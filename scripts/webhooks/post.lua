-- post.lua: puts messages into the outbox of a board (lib/outbox.lua). A script that itself does what its messages are
-- about uses the fragment instead.
-- Uses: lib/outbox.lua
--
-- KEYS[1] board; KEYS[2] registry of results; KEYS[3] outbox: hash, id -> body of the message, JSON
-- ARGV[1] version, as in apply.lua
-- ARGV[2], ARGV[3] id and body of a message, and so on for more
--
-- Reply: {'STALE'} | {'OK'}
-- Example: KEYS st:{b} st:{b}:1:results-keys st:{b}:1:outbox  ARGV '1-1' 'msg_5f…' '{…}'  reply {'OK'}

if #KEYS ~= 3 or #ARGV < 3 or #ARGV % 2 == 0 then return redis.error_reply('ERR post.lua: 3 keys, 3 arguments or more') end
local BOARD, REGISTRY, OUTBOX = KEYS[1], KEYS[2], KEYS[3]
local version = ARGV[1]

if redis.call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
for at = 2, #ARGV, 2 do post_message(REGISTRY, OUTBOX, ARGV[at], ARGV[at + 1]) end
return {'OK'}
