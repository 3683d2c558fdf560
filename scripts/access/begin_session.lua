-- begin_session.lua: begins a session of the console. If the API key then has too many, its oldest sessions end.
-- Uses: lib/slot.lua
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1] the session, which is new
-- KEYS[2] list: the keys of the sessions that the API key has begun, oldest first; some may have ended
-- ARGV[1] the session, JSON
-- ARGV[2] for how long it lasts, ms
-- ARGV[3] how many sessions the API key may have
--
-- Reply: how many sessions were ended
-- Example: KEYS st:{boards}:session:9f86d0 st:{boards}:sessions:site  ARGV '{…}' '43200000' '100'  reply 0

local SESSION, BEGUN, json, lifetime_ms, count_max = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
require_slot(BEGUN)

local count = redis.call('RPUSH', BEGUN, SESSION)
redis.call('PEXPIRE', BEGUN, lifetime_ms)
redis.call('SET', SESSION, json, 'PX', lifetime_ms)
if count <= count_max then return 0 end
for _, session in ipairs(redis.call('LRANGE', BEGUN, 0, -1)) do
  if redis.call('EXISTS', session) == 0 then redis.call('LREM', BEGUN, 1, session) end
end
local over = redis.call('LLEN', BEGUN) - count_max
for _ = 1, over do redis.call('DEL', redis.call('LPOP', BEGUN)) end
return math.max(over, 0)
