-- api_key_uses.lua: notes when API keys were last used. Later stored times stay; deleted keys are skipped.
--
-- KEYS[1] hash: name -> API key; KEYS[2] hash: name -> when it was last used, ms
-- ARGV[1] name, ARGV[2] when it was used, ms; and so on for others
--
-- Reply: {'OK'}
-- Example: KEYS st:{boards}:api-keys st:{boards}:api-key-uses  ARGV 'site' '1795305600123'  reply {'OK'}

if #KEYS ~= 2 or #ARGV < 2 or #ARGV % 2 ~= 0 then
  return redis.error_reply('ERR api_key_uses.lua: 2 keys, pairs of arguments')
end
local STORED, USES = KEYS[1], KEYS[2]

for index = 1, #ARGV, 2 do
  local name, used = ARGV[index], ARGV[index + 1]
  local last = tonumber(redis.call('HGET', USES, name) or 0)
  if redis.call('HEXISTS', STORED, name) == 1 and tonumber(used) > last then
    redis.call('HSET', USES, name, used)
  end
end
return {'OK'}
