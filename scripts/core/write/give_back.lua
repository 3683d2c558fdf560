-- give_back.lua: gives back a seat that was suggested to a member that sits elsewhere. If the suggestion no longer exists,
-- or is another one, nothing is done.
-- Uses: lib/slot.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1] tiers, KEYS[2] taking: as in take_seat.lua
-- ARGV[1] the member; ARGV[2] the number of the cohort
--
-- Reply: {'OK'}
-- Example: KEYS st:{b:16:5}:1:tiers:week:2026-11-16/1 st:{b:16:5}:1:taking:week:2026-11-16/1  ARGV 'ann' '17'  reply {'OK'}

local TIERS, TAKING, member, number = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
require_slot(TIERS)

if redis.call('HGET', TAKING, member) == number then
  redis.call('HDEL', TAKING, member)
  redis.call('HSET', TIERS, 'free', (redis.call('HGET', TIERS, 'free') or '') .. ' ' .. number)
end
return {'OK'}
