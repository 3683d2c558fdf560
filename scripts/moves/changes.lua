-- changes.lua: reads the changes that a shard has noted while its data is being copied, and the current data of each
-- (lib/capture.lua).
-- Uses: lib/slot.lua, lib/generation.lua, lib/keys.lua, lib/standing.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1]  head of the shard, KEYS[2] changes, KEYS[3] copied
-- ARGV[1]  MessagePack of a map:
--   generation of the board
--   layout    see lib/standing.lua
--   copying   how each kind is copied, by its code (src/redis/kinds.rs): 'members' | 'lines' |
--             'rows' | 'everywhere' | 'whole' | 'merged' | …
--   copied    list of names of keys, to be noted as copied first, unless they were dropped
--   noted     list of changes to be noted first
--   done      list of {change, count}: changes that were copied; the script forgets them unless noted again since
--   count     how many changes the reply has at most
--
-- Reply: {'STALE'} the shard no longer notes changes: the board was deleted, or has moved | {'OK', how many changes
-- are noted, change, …}. The form of a change depends on how its kind is copied; `count` is how often it was noted:
--   members      {change, count, expires, score ('' if it is not listed), time (a tie key), data ('' for none)}
--   lines, rows, everywhere   {change, count, expires (0 unless it is a part of a standing), the line ('' if there is none),
--                whether there is one}
--   whole        {change, count, expires, tag of a shard that has counted, number, …}
--   merged       {change, count, expires, HyperLogLog ('' if there is none)}
-- Scores, times and `expires` (ms since the epoch, 0: never) are text.
--
-- Example: bob has scored 3 points in a standing with ties by member:
--   KEYS st:{b} st:{b}:1:changes st:{b}:1:copied  ARGV {…, copied={}, noted={}, done={}, count=10}
--   reply {'OK', 1, {'s␟st:{b}:1:s:day:2026-11-21␟bob', '1', '0', '-3', '0', ''}}

local HEAD, CHANGES, COPIED = KEYS[1], KEYS[2], KEYS[3]
local args = cmsgpack.unpack(ARGV[1])
require_slot(HEAD)
local layout = args.layout
local standings = open_standings(layout, {})

local head = call('HMGET', HEAD, 'version', 'moving')
if not (is_of_generation(head[1], args.generation) and head[2]) then return {'STALE'} end

local function expires_of(key)
  return number_text(math.max(0, call('PEXPIRETIME', key)))
end

local function read_member(noted)
  local zset, id = string.match(noted, '^(.-)' .. SEPARATOR .. '(.*)$')
  local standing = open_standing(standings, {zset = zset, hash = layout.hashed and members_of(zset)})
  local scores, times, data = fetch(standing, {id})
  local score = scores[1] and number_text(scores[1]) or ''
  return expires_of(zset), score, number_text(times[1] or 0), data and data[1] or ''
end

local function read_line(noted, kind)
  local key, id = string.match(noted, '^(.-)' .. SEPARATOR .. '(.*)$')
  local line = call('HGET', key, id)
  return kind == KIND_FOLDED and expires_of(key) or '0', line or '', line and 1 or 0
end

local function read_whole(key)
  return expires_of(key), unpack(call('HGETALL', key))
end

local function read_voters(key)
  return expires_of(key), call('GET', key) or ''
end

local READ = {members = read_member, lines = read_line, rows = read_line, everywhere = read_line, whole = read_whole, merged = read_voters}

local function look_up(change)
  local kind, noted = string.match(change, '^(.-)' .. SEPARATOR .. '(.*)$')
  local read = READ[args.copying[kind]]
  if not read then error('changes.lua: every kind that is captured is copied: ' .. change) end
  return read(noted, kind)
end

for _, name in ipairs(args.copied) do call('HSETNX', COPIED, name, 'done') end
for _, change in ipairs(args.noted) do call('HINCRBY', CHANGES, change, 1) end
for _, done in ipairs(args.done) do
  if call('HGET', CHANGES, done[1]) == done[2] then call('HDEL', CHANGES, done[1]) end
end
local reply = {'OK', call('HLEN', CHANGES)}
local noted = call('HRANDFIELD', CHANGES, args.count, 'WITHVALUES')
for index = 1, #noted, 2 do
  reply[#reply + 1] = {noted[index], noted[index + 1], look_up(noted[index])}
end
return reply
