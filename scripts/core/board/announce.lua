-- announce.lua: announces to all instances that a board's definition has changed.
-- Uses: lib/announce.lua
--
-- Takes: 5 keys, 3 arguments
-- KEYS[1] the ids of all boards; KEYS[2] board ids by the sequence number of their last change; KEYS[3] the
--         last sequence number; KEYS[4] the epoch of these numbers (lib/announce.lua)
-- KEYS[5] changes that were begun (begin.lua)
-- ARGV[1] board id
-- ARGV[2] '1' if the board exists, '0' if it was deleted
-- ARGV[3] the stamp of the change, which is complete now; '' for none
--
-- Reply: the sequence number, an integer
-- Example: KEYS st:{boards}:live st:{boards}:changes st:{boards}:sequence st:{boards}:epoch st:{boards}:begun
--   ARGV 'b' '1' '28080000123456'  reply 1

local LIVE, CHANGES, SEQUENCE, EPOCH, BEGUN = unpack(KEYS)
local id, is_live, stamp = ARGV[1], ARGV[2] == '1', ARGV[3]

local number = announce(LIVE, CHANGES, SEQUENCE, EPOCH, id, is_live)
if stamp ~= '' then redis.call('ZREM', BEGUN, id .. ' ' .. stamp) end
return number
