-- claim_deliveries.lua: gives one instance some of the deliveries of a webhook that are due. For a while nobody else gets them;
-- then they are due again, unless they were ended (end_delivery.lua).
--
-- KEYS[1] … KEYS[7] as in lib/deliveries.lua
-- ARGV[1] name
-- ARGV[2] now, ms
-- ARGV[3] until when nobody else gets them, ms
-- ARGV[4] how many at the most
--
-- Reply: {'OK', the webhook as JSON, '' if it is gone or disabled, then id and JSON of each delivery}
-- Example: KEYS as in webhook.lua  ARGV 'site' '1795305600123' '1795305660123' '4'  reply {'OK', '{…}', 'msg_5f…', '{…}'}

if #KEYS ~= DELIVERY_KEYS or #ARGV ~= 4 then return redis.error_reply('ERR claim_deliveries.lua: 7 keys, 4 arguments') end
local WEBHOOKS, DELIVERIES, PENDING = KEYS[1], KEYS[4], KEYS[5]
local name, now, claimed_until, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local webhook = redis.call('HGET', WEBHOOKS, name)
local reply = {'OK', ''}
if webhook and not cjson.decode(webhook).disabled then
  reply[2] = webhook
  for _, id in ipairs(redis.call('ZRANGE', PENDING, '-inf', now, 'BYSCORE', 'LIMIT', 0, count)) do
    local delivery = redis.call('HGET', DELIVERIES, id)
    assert(delivery, 'invariant: a delivery that is listed is there')
    redis.call('ZADD', PENDING, claimed_until, id)
    reply[#reply + 1] = id
    reply[#reply + 1] = delivery
  end
end
refresh_due(name, tonumber(now))
return reply
