-- end_line.lua: forgets a line of a journal of hides once all results were revised by it.
-- Uses: lib/slot.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1] to revise: sorted set, line -> its number; KEYS[2] revised periods: hash, line -> list of periods
-- ARGV[1] the line, ARGV[2] its number. A line that has got another number has to be processed again and stays
--
-- Reply: {'OK'}
-- Example: KEYS st:{b}:1:to-revise st:{b}:1:revised-periods  ARGV 'b␟ann' '1'  reply {'OK'}

local TO_REVISE, PERIODS, line, number = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
require_slot(TO_REVISE)

redis.call('HDEL', PERIODS, line)
if redis.call('ZSCORE', TO_REVISE, line) == number then redis.call('ZREM', TO_REVISE, line) end
return {'OK'}
