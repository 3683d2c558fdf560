-- changes.lua: what has been noted of a shard whose data is being copied, and how it is now (lib/moving.lua).
--
-- KEYS[1]  head of the shard, KEYS[2] changes, KEYS[3] copied
-- ARGV[1]  MessagePack of a map:
--   generation of the board
--   layout    see lib/standing.lua
--   copied    list of names of keys, noted as copied before, unless they were dropped
--   noted     list of what is noted as changed before
--   settled   list of {what, how often}: copied since; forgotten, unless they were noted again
--   count     how many to tell at the most
--
-- Reply: {'STALE'} nothing is noted there any more: the board was deleted, or has moved | {'OK', how many are noted, one
-- for each that is told}:
--   of a member     {what, how often, expires, score ('' if it is not listed), time (a tie key)}
--   of events       {what, how often, expires, tag of a shard that has counted, number, …}
--   of voters       {what, how often, expires, HyperLogLog ('' if there is none)}
-- Scores, times and `expires` (ms since the epoch, 0: never) are text.
--
-- Example: bob has got 3 points in a standing with ties by member:
--   KEYS st:{b} st:{b}:1:changes st:{b}:1:copied  ARGV {…, copied={}, noted={}, settled={}, count=10}
--   reply {'OK', 1, {'st:{b}:1:day:2026-11-21␟bob', '1', '0', '-3', '0'}}

if #KEYS ~= 3 or #ARGV ~= 1 then return redis.error_reply('ERR changes.lua: 3 keys, 1 argument') end
local HEAD, CHANGES, COPIED, SEPARATOR = KEYS[1], KEYS[2], KEYS[3], '\31'
local args = cmsgpack.unpack(ARGV[1])
require_slot(HEAD)
local layout = args.layout
local standings = open_standings(layout, {})

local head = call('HMGET', HEAD, 'version', 'moving')
if not (is_of_generation(head[1], args.generation) and head[2]) then return {'STALE'} end

local function expires_of(key)
  return number_text(math.max(0, call('PEXPIRETIME', key)))
end

local function member_now(what, zset, id)
  local standing = open_standing(standings, {zset = zset, hash = layout.hashed and zset .. ':members'})
  local scores, times = fetch(standing, {id})
  return expires_of(zset), scores[1] and number_text(scores[1]) or '', number_text(times[1] or 0)
end

local function look_up(what)
  local list = string.match(what, '^.-}:%d+:(%a+)-')
  if list == 'events' then return expires_of(what), unpack(call('HGETALL', what)) end
  if list == 'voters' then return expires_of(what), call('GET', what) or '' end
  local place = string.find(what, SEPARATOR, 1, true)
  return member_now(what, string.sub(what, 1, place - 1), string.sub(what, place + 1))
end

for _, name in ipairs(args.copied) do call('HSETNX', COPIED, name, 'done') end
for _, what in ipairs(args.noted) do call('HINCRBY', CHANGES, what, 1) end
for _, settled in ipairs(args.settled) do
  if call('HGET', CHANGES, settled[1]) == settled[2] then call('HDEL', CHANGES, settled[1]) end
end
local reply = {'OK', call('HLEN', CHANGES)}
local noted = call('HRANDFIELD', CHANGES, args.count, 'WITHVALUES')
for index = 1, #noted, 2 do
  reply[#reply + 1] = {noted[index], noted[index + 1], look_up(noted[index])}
end
return reply
