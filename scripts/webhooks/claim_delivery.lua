-- claim_delivery.lua: gives one instance a due delivery of a webhook. For a while no other instance gets it; then it is due
-- again, unless it was ended (end_delivery.lua). It also drops deliveries that were kept for long enough.
-- Uses: lib/deliveries.lua
--
-- Takes: 7 keys, 3 arguments
-- KEYS[1] … KEYS[7] as in lib/deliveries.lua
-- ARGV[1] name
-- ARGV[2] now, ms
-- ARGV[3] until when no other instance gets it, ms
--
-- Reply: {'OK', the webhook as JSON, id of the delivery, the delivery as JSON} | {'NONE'} nothing is due, or the webhook
--   was deleted or disabled
-- Example: KEYS as in webhook.lua  ARGV 'site' '1795305600123' '1795305630123'  reply {'OK', '{…}', 'msg_5f…', '{…}'}

local WEBHOOKS, DELIVERIES, PENDING = KEYS[1], KEYS[4], KEYS[5]
local name, now, claimed_until = ARGV[1], ARGV[2], ARGV[3]

local webhook, reply = redis.call('HGET', WEBHOOKS, name), {'NONE'}
if webhook and not cjson.decode(webhook).disabled then
  local id = redis.call('ZRANGE', PENDING, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
  if id then
    local delivery = redis.call('HGET', DELIVERIES, id)
    assert(delivery, 'invariant: a delivery that is listed is there')
    redis.call('ZADD', PENDING, claimed_until, id)
    reply = {'OK', webhook, id, delivery}
  end
end
refresh_due(name, tonumber(now))
return reply
