-- lib/outbox.lua: messages for webhooks. A script writes them in the same step as what they tell of, so that no crash comes in
-- between. The caller then notes that the outbox has something (src/store/outbox.rs).

-- Puts a message into the outbox of a board, unless one with this id is there.
local function post_message(registry, outbox, id, body)
  redis.call('SADD', registry, outbox)
  redis.call('HSETNX', outbox, id, body)
end
