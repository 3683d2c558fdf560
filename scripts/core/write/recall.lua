-- recall.lua: reads what a former shard, which its board has moved away from, remembers of events. That no longer changes.
--
-- KEYS[1], KEYS[2], …   event ids
-- ARGV[1]  MessagePack of a map:
--   fingerprints   of the events
--   confirm        as in apply.lua
--
-- Reply: for each event '' if it is not remembered, or a result as in apply.lua: {DUPLICATE, record} | {REUSED}
-- Example: KEYS st:{b}:1:e:x1  ARGV {fingerprints={77}, confirm=false}  reply {''}

if #KEYS < 1 or #ARGV ~= 1 then return redis.error_reply('ERR recall.lua: 1 key or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])

local reply = {}
for index, record in ipairs(redis.call('MGET', unpack(KEYS))) do
  if not record then
    reply[index] = ''
  elseif struct.unpack(FINGERPRINT_FORM, record) ~= args.fingerprints[index] then
    reply[index] = {REUSED}
  else
    if args.confirm then redis.call('SET', KEYS[index], record, 'KEEPTTL', 'XX') end
    reply[index] = {DUPLICATE, record}
  end
end
return reply
