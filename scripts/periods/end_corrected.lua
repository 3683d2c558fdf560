-- end_corrected.lua: removes the note of a closed period that was corrected, once its result includes the correction.
-- Uses: lib/slot.lua
--
-- Takes: 1 key, 2 arguments
-- KEYS[1] closed periods that were corrected: hash (correct.lua)
-- ARGV[1] the name of the period, ARGV[2] the note. A period that was corrected again has another one, which stays
--
-- Reply: {'OK'}
-- Example: KEYS st:{b}:1:corrected  ARGV 'day 2026-11-21' '1 0'  reply {'OK'}

local CORRECTED, name, note = KEYS[1], ARGV[1], ARGV[2]
require_slot(CORRECTED)

if redis.call('HGET', CORRECTED, name) == note then redis.call('HDEL', CORRECTED, name) end
return {'OK'}
