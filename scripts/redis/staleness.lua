-- staleness.lua: reads the greatest staleness of the replicas that any instance reads from. An instance that is named first
-- registers its own bound for a while.
--
-- Takes: 1 key, 3 arguments
-- KEYS[1] hash: instance -> `bound until`, its bound and until when it counts, both in ms
-- ARGV[1] the instance; '' to only read
-- ARGV[2] its bound, ms
-- ARGV[3] for how many ms it counts
--
-- Reply: the greatest bound of all instances, ms, an integer; 0 if none reads from replicas
-- Example: KEYS st:{boards}:stalenesses  ARGV 'f00' '1000' '30000'  reply 1000

local BOUNDS, instance, bound, duration = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if instance ~= '' then redis.call('HSET', BOUNDS, instance, bound .. string.format(' %.0f', now + duration)) end
local greatest, registered = 0, redis.call('HGETALL', BOUNDS)
for i = 1, #registered, 2 do
  local other, until_ms = string.match(registered[i + 1], '^(%d+) (%d+)$')
  if tonumber(until_ms) < now then
    redis.call('HDEL', BOUNDS, registered[i])
  else
    greatest = math.max(greatest, tonumber(other))
  end
end
return greatest
