-- name_mirrored.lua: names standings whose changes calls leave in the trail of their shard (lib/trail.lua), for a while.
-- Uses: lib/keys.lua
--
-- A standing gets an id when it is named, and another one if it is named again after nobody has asked for it for that long. So
-- a record says by its ids which standings it covers, and nothing relies on the time.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1] board: `version`, `hides`, `changed`, `mirrored`: a line for each named standing, of its id, until when it is named
--         (seconds), and its sorted set
-- KEYS[2] registry
-- ARGV[1] MessagePack of a map: version as in apply.lua; standings: list of sorted sets; seconds: for how long
--
-- Reply: {'STALE'}, or {'OK', {the id of each}}; without ids if members were ever hidden: records don't say who is
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', standings={'st:{b}:1:s:all:all'}, seconds=30}
--   reply {'OK', {1795305600123456}}

local BOARD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
local board = redis.call('HMGET', BOARD, 'version', 'hides', 'changed', 'mirrored')
if board[1] ~= args.version then return {'STALE'} end
if board[2] then return {'OK', {}} end

local time = redis.call('TIME')
local now, id = tonumber(time[1]), time[1] * 1000000 + time[2]
local TRAIL = trail_of(REGISTRY)
local until_of, id_of = {}, {}
for old_id, until_s, zset in string.gmatch(board[4] or '', '(%d+) (%d+) ([^\n]+)') do
  if tonumber(until_s) >= now then until_of[zset], id_of[zset] = tonumber(until_s), tonumber(old_id) end
end
local ids = {}
for index, zset in ipairs(args.standings) do
  id_of[zset] = id_of[zset] or id + index
  until_of[zset] = math.max(until_of[zset] or 0, now + args.seconds)
  ids[index] = id_of[zset]
end
local lines = {}
for zset, named in pairs(id_of) do lines[#lines + 1] = string.format('%d %d %s', named, until_of[zset], zset) end
redis.call('HSET', BOARD, 'mirrored', table.concat(lines, '\n'))
if redis.call('EXISTS', TRAIL) == 0 then
  redis.call('RPUSH', TRAIL, '\n\n')
end
redis.call('EXPIRE', TRAIL, 2 * args.seconds)
return {'OK', ids}
