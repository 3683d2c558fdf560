-- lib/deliveries.lua: the deliveries of a webhook, and when there is work to do for it.
--
-- Scripts of webhooks have the same seven keys:
-- KEYS[1] webhooks: hash, name -> webhook, JSON (src/domain/webhook.rs)
-- KEYS[2] version: differs after each change of a webhook
-- KEYS[3] due: sorted set, names of webhooks by the ms at which a delivery is due, or has been kept for long enough
-- KEYS[4] deliveries of this webhook: hash, id of the message -> delivery, JSON (src/domain/delivery.rs)
-- KEYS[5], KEYS[6], KEYS[7] its deliveries that are pending, dead, delivered: sorted sets, ids by the ms at which they are
--         due, or got that status

local DELIVERY_KEYS, KEPT_MS, DEAD_MAX, DELIVERED_MAX = 7, 30 * 86400000, 10000, 1000

-- The sorted set of the deliveries with this status.
local function list_of(status)
  return status == 'pending' and KEYS[5] or status == 'dead' and KEYS[6] or status == 'delivered' and KEYS[7]
    or error('invariant: a delivery is pending, dead or delivered')
end

-- Drops a bounded number of deliveries that are beyond `count_max`, or were kept for long enough.
local function trim(list, count_max, now)
  local surplus = redis.call('ZCARD', list) - count_max
  local oldest = redis.call('ZRANGE', list, 0, 99, 'WITHSCORES')
  local dropped = {}
  for at = 1, #oldest, 2 do
    if (at + 1) / 2 > surplus and tonumber(oldest[at + 1]) > now - KEPT_MS then break end
    dropped[#dropped + 1] = oldest[at]
  end
  if #dropped == 0 then return end
  redis.call('ZREM', list, unpack(dropped))
  redis.call('HDEL', KEYS[4], unpack(dropped))
end

-- Notes when there is work to do for a webhook next. A disabled one keeps its pending deliveries, but gets none.
local function refresh_due(name, now)
  trim(KEYS[6], DEAD_MAX, now)
  trim(KEYS[7], DELIVERED_MAX, now)
  local webhook, due = redis.call('HGET', KEYS[1], name), math.huge
  local function consider(list, kept)
    local first = redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')
    if first[2] then due = math.min(due, tonumber(first[2]) + kept) end
  end
  if webhook and not cjson.decode(webhook).disabled then consider(KEYS[5], 0) end
  consider(KEYS[6], KEPT_MS)
  consider(KEYS[7], KEPT_MS)
  if due == math.huge then
    redis.call('ZREM', KEYS[3], name)
  else
    redis.call('ZADD', KEYS[3], string.format('%.0f', due), name)
  end
end
