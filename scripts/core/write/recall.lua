-- recall.lua: reads what a former shard, which its board has moved away from, remembers of events. That no longer changes.
-- Uses: lib/generation.lua
--
-- Takes: 2 keys or more, 1 argument
-- KEYS[1]   head of the shard
-- KEYS[2…]  event ids
-- ARGV[1]  MessagePack of a map:
--   generation     of the board
--   fingerprints   of the events
--   confirm        as in apply.lua
--
-- Reply: {'STALE'} the board was deleted, or {'OK', for each event '' if it is not remembered, or a result as in apply.lua:
--   {DUPLICATE, record} | {REUSED}}
-- Example: KEYS st:{b} st:{b}:1:e:x1  ARGV {generation='1', fingerprints={77}, confirm=false}  reply {'OK', ''}

local args = cmsgpack.unpack(ARGV[1])
if not is_of_generation(redis.call('HGET', KEYS[1], 'version'), args.generation) then return {'STALE'} end

local reply = {'OK'}
for index, record in ipairs(redis.call('MGET', unpack(KEYS, 2))) do
  if not record then
    reply[index + 1] = ''
  elseif struct.unpack(FINGERPRINT_FORM, record) ~= args.fingerprints[index] then
    reply[index + 1] = {REUSED}
  else
    if args.confirm then redis.call('SET', KEYS[index + 1], record, 'KEEPTTL', 'XX') end
    reply[index + 1] = {DUPLICATE, record}
  end
end
return reply
