-- lib/pseudonyms.lua: forgets which members pseudonyms of the audit log stand for.

local function forget(pseudonyms, members, seen, forgotten)
  if #forgotten == 0 then return end
  for _, member in ipairs(redis.call('HMGET', members, unpack(forgotten))) do
    if member then redis.call('HDEL', pseudonyms, member) end
  end
  redis.call('HDEL', members, unpack(forgotten))
  redis.call('ZREM', seen, unpack(forgotten))
end
