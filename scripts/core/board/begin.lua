-- begin.lua: begins a change of a board. It gives the change a stamp and notes it, so that the change is announced
-- (announce.lua) even if the instance that makes it dies before that.
--
-- A stamp is a number that is given out once and never again, even after Redis has lost recent writes or everything: the
-- microseconds since 2026 by the server's clock. It is greater than the one before even if the clock is not, and until the
-- year 2311 it is below 2^53, up to which Lua counts exactly.
--
-- Takes: 3 keys, 1 argument
-- KEYS[1] the last stamp; KEYS[2] changes that were begun: sorted set of `id stamp`, by stamp; KEYS[3] the format
--         (format.lua), which is noted with the first stamp
-- ARGV[1] board id
--
-- Names in capitals are in src/redis/protocol.rs.
-- Reply: the stamp, text
-- Example: KEYS st:{boards}:stamp st:{boards}:begun st:{boards}:format  ARGV 'b'  reply '28080000123456'

local STAMP, BEGUN, FORMAT, id = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local BEFORE_2026_S = 1767225600

local time = redis.call('TIME')
local now = (time[1] - BEFORE_2026_S) * 1000000 + time[2]
local last = redis.call('GET', STAMP)
if not last then redis.call('SET', FORMAT, DATA_FORMAT) end
local stamp = string.format('%.0f', math.max((last or 0) + 1, now))
redis.call('SET', STAMP, stamp)
redis.call('ZADD', BEGUN, stamp, id .. ' ' .. stamp)
return stamp
