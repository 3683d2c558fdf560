-- profiles.lua: writes profiles of one bucket, each if it is still what the caller saw, and keeps the sets of names by
-- review in the same step. A profile that can't be written does not hold up the others.
-- Uses: lib/slot.lua
--
-- KEYS[1] the members whose name is pending, all under score 0; KEYS[2] approved; KEYS[3] blocked
-- KEYS[4…] profiles
-- ARGV[1] the member; ARGV[2] the JSON that the caller saw, '' for none, '*' for any; ARGV[3] the new JSON, '' deletes it;
-- ARGV[4] which of the three sets its name belongs to, 0 for none; and so on, four for each profile
--
-- Reply: for each profile 'OK' | 'NONE' there was nothing to delete | 'CHANGED' it is not what the caller saw | 'FAULT' the
--        key has another type
-- Example: KEYS st:{profiles:07}:pending st:{profiles:07}:approved st:{profiles:07}:blocked st:{profiles:07}:p:ann
--   ARGV 'ann' '' '{…}' '1'  reply {'OK'}

local FIRST, WIDTH = 4, 4
if #KEYS < FIRST or #ARGV ~= WIDTH * (#KEYS - FIRST + 1) then
  return redis.error_reply('ERR profiles.lua: 4 keys or more, 4 arguments for each profile')
end
require_slot(KEYS[1])

local function note_review(member, status)
  for set = 1, FIRST - 1 do
    if set == status then
      redis.call('ZADD', KEYS[set], 0, member)
    else
      redis.call('ZREM', KEYS[set], member)
    end
  end
end

local reply = {}
for index = FIRST, #KEYS do
  local key, at = KEYS[index], WIDTH * (index - FIRST)
  local member, seen, new, status = unpack(ARGV, at + 1, at + WIDTH)
  local stored = seen ~= '*' and (redis.pcall('GET', key) or '')
  local code = 'OK'
  if type(stored) == 'table' then
    code = 'FAULT'
  elseif stored and stored ~= seen then
    code = 'CHANGED'
  else
    note_review(member, tonumber(status))
    if new ~= '' then
      redis.call('SET', key, new)
    elseif redis.call('UNLINK', key) == 0 then
      code = 'NONE'
    end
  end
  reply[index - FIRST + 1] = code
end
return reply
