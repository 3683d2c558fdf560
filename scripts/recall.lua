-- recall.lua: what is remembered of events in a shard from which the board has moved away. It does not change there.
--
-- KEYS[1], KEYS[2], …   event ids
-- ARGV[1]  MessagePack of a map:
--   fingerprints   of the events
--   confirm        as in apply.lua
--
-- Reply: for each event '' if it is not remembered, or a result as in apply.lua: {1, record} | {2}
-- Example: KEYS st:{b}:1:e:x1  ARGV {fingerprints={77}, confirm=false}  reply {''}

if #KEYS < 1 or #ARGV ~= 1 then return redis.error_reply('ERR recall.lua: 1 key or more, 1 argument') end
local DUPLICATE, REUSED = 1, 2
local args = cmsgpack.unpack(ARGV[1])

local reply = {}
for place, record in ipairs(redis.call('MGET', unpack(KEYS))) do
  if not record then
    reply[place] = ''
  elseif struct.unpack('>I7', record) ~= args.fingerprints[place] then
    reply[place] = {REUSED}
  else
    if args.confirm then redis.call('SET', KEYS[place], record, 'KEEPTTL', 'XX') end
    reply[place] = {DUPLICATE, record}
  end
end
return reply
