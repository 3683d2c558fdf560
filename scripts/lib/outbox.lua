-- lib/outbox.lua: messages for webhooks. A script writes them in the step that they are about, so that no crash can come in
-- between. The caller then notes that the outbox has messages (src/webhooks/outbox/store.rs).

-- Puts a message into the outbox of a board, unless it has one with this id.
local function post_message(registry, outbox, id, body)
  redis.call('SADD', registry, outbox)
  redis.call('HSETNX', outbox, id, body)
end
