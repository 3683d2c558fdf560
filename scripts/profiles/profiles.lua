-- profiles.lua: writes profiles of one bucket, each if it is still what the caller saw. In the same step it keeps the sets of
-- names by review, and the index of the words of names if there is one. A profile that can't be written does not hold up the
-- others.
-- Uses: lib/slot.lua, lib/name_words.lua
--
-- KEYS[1] the members whose name is pending, by the instants of their reviews; KEYS[2] approved; KEYS[3] blocked
-- KEYS[4] the index of words: sorted set; KEYS[5] its state: it exists if there is an index
-- KEYS[6…] profiles
-- ARGV[1] the member; ARGV[2] the JSON that the caller saw, '' for none, '*' for none or a key of another type; ARGV[3] the new
-- JSON, '' deletes it; ARGV[4] which of the three sets its name belongs to, 0 for none; ARGV[5] the words of the name that the
-- caller saw, ARGV[6] those of the new one, each with a line break; ARGV[7] the instant of its review; and so on, seven for each
-- profile
--
-- Reply: for each profile 'OK' | 'NONE' there was nothing to delete | 'CHANGED' it is not what the caller saw | 'FAULT' the
--        key has another type
-- Example: KEYS st:{profiles:07}:pending st:{profiles:07}:approved st:{profiles:07}:blocked st:{profiles:07}:words
--     st:{profiles:07}:words-state st:{profiles:07}:p:ann
--   ARGV 'ann' '' '{…}' '1' '' 'ann\nsmith\n' '1795262400000'  reply {'OK'}

local REVIEWS, FIRST, WIDTH = 3, 6, 7
if #KEYS < FIRST or #ARGV ~= WIDTH * (#KEYS - FIRST + 1) then
  return redis.error_reply('ERR profiles.lua: 6 keys or more, 7 arguments for each profile')
end
require_slot(KEYS[1])
local INDEX = KEYS[4]
local has_index = redis.call('EXISTS', KEYS[5]) == 1

local function note_review(member, status, at)
  for set = 1, REVIEWS do
    if set == status then
      redis.call('ZADD', KEYS[set], at, member)
    else
      redis.call('ZREM', KEYS[set], member)
    end
  end
end

local function note_words(member, old, new)
  if old ~= new then
    for word in string.gmatch(old, '[^\n]+') do remove_line(INDEX, word .. SEPARATOR .. member) end
  end
  for word in string.gmatch(new, '[^\n]+') do add_line(INDEX, word .. SEPARATOR .. member) end
end

local reply = {}
for index = FIRST, #KEYS do
  local key, at = KEYS[index], WIDTH * (index - FIRST)
  local member, seen, new, status, old_words, new_words, reviewed_at = unpack(ARGV, at + 1, at + WIDTH)
  local stored = redis.pcall('GET', key) or ''
  local code = 'OK'
  if type(stored) == 'table' and seen ~= '*' then
    code = 'FAULT'
  elseif type(stored) ~= 'table' and stored ~= (seen == '*' and '' or seen) then
    code = 'CHANGED'
  else
    note_review(member, tonumber(status), reviewed_at)
    if has_index then note_words(member, old_words, new_words) end
    if new ~= '' then
      redis.call('SET', key, new)
    elseif redis.call('UNLINK', key) == 0 then
      code = 'NONE'
    end
  end
  reply[index - FIRST + 1] = code
end
return reply
