-- webhook.lua: creates, changes or deletes a webhook, if it is still what the caller saw. Also deletes its deliveries.
-- Uses: lib/deliveries.lua
--
-- Takes: 7 keys, 5 arguments
-- KEYS[1] … KEYS[7] as in lib/deliveries.lua
-- ARGV[1] name
-- ARGV[2] the JSON that the caller saw, '' for none
-- ARGV[3] the new JSON, '' to delete it
-- ARGV[4] how many webhooks there may be
-- ARGV[5] now, ms
--
-- Reply: {'OK'} | {'CHANGED'} it is not what the caller saw | {'FULL'} there are too many
-- Example: KEYS st:{boards}:webhooks st:{boards}:webhooks-version st:{boards}:webhooks-due
--   st:{boards}:webhook-deliveries:site …
--   ARGV 'site' '' '{…}' '100' '1795305600123'  reply {'OK'}

local WEBHOOKS, VERSION = KEYS[1], KEYS[2]
local name, seen, new, count_max, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

if (redis.call('HGET', WEBHOOKS, name) or '') ~= seen then return {'CHANGED'} end
if seen == '' and redis.call('HLEN', WEBHOOKS) >= count_max then return {'FULL'} end
if new == '' then
  redis.call('HDEL', WEBHOOKS, name)
  redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6], KEYS[7])
else
  redis.call('HSET', WEBHOOKS, name, new)
end
-- A number that was never used before, even if Redis has gone back to an older copy of its data.
local time = redis.call('TIME')
local version = math.max(tonumber(redis.call('GET', VERSION) or 0) + 1, time[1] * 1000000 + time[2])
redis.call('SET', VERSION, string.format('%.0f', version))
refresh_due(name, now)
return {'OK'}
