-- audit_members.lua: gives members pseudonyms in the audit log. A member that has one keeps it. If there are too many,
-- those that the log has not named for longest are forgotten.
-- Uses: lib/pseudonyms.lua
--
-- KEYS[1] hash: member -> pseudonym; KEYS[2] hash: pseudonym -> member; KEYS[3] sorted set: pseudonyms by last line, ms
-- ARGV[1] how many there may be
-- ARGV[2…] for each member its id, and the pseudonym that it gets if it has none
--
-- Reply: {pseudonym, …}
-- Example: KEYS st:{boards}:audit-pseudonyms st:{boards}:audit-members st:{boards}:audit-seen
--   ARGV '200000' 'ann' 'm-5f'  reply {'m-5f'}

if #KEYS ~= 3 or #ARGV < 3 or #ARGV % 2 == 0 then
  return redis.error_reply('ERR audit_members.lua: 3 keys, 3 arguments or more, an odd number')
end
local PSEUDONYMS, MEMBERS, SEEN = KEYS[1], KEYS[2], KEYS[3]

local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local pseudonyms = {}
for place = 2, #ARGV, 2 do
  local member = ARGV[place]
  local pseudonym = redis.call('HGET', PSEUDONYMS, member)
  if not pseudonym then
    pseudonym = ARGV[place + 1]
    redis.call('HSET', PSEUDONYMS, member, pseudonym)
    redis.call('HSET', MEMBERS, pseudonym, member)
  end
  redis.call('ZADD', SEEN, now, pseudonym)
  pseudonyms[#pseudonyms + 1] = pseudonym
end
local beyond = redis.call('ZCARD', SEEN) - tonumber(ARGV[1])
if beyond > 0 then forget(PSEUDONYMS, MEMBERS, SEEN, redis.call('ZRANGE', SEEN, 0, math.min(beyond, 100) - 1)) end
return pseudonyms
