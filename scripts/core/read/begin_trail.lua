-- begin_trail.lua: names a standing in the trail of its shard (lib/trail.lua), for a while.
--
-- Takes: 3 keys, 1 argument
-- KEYS[1] board: `version`, `trail`; KEYS[2] registry, KEYS[3] trail
-- ARGV[1] MessagePack of a map: version as in apply.lua; standing: its sorted set; seconds: for how long
--
-- Reply: {'STALE'}, or {'OK', the token of the trail: another one if an earlier trail has expired, or covered too many standings}
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:r:trail  ARGV {version='1-1', standing='st:{b}:1:s:all:all', seconds=60}
--   reply {'OK', '1795305600123456'}

-- How many standings one trail covers.
local STANDINGS_MAX = 16

local BOARD, TRAIL = KEYS[1], KEYS[3]
local args = cmsgpack.unpack(ARGV[1])
local board = redis.call('HMGET', BOARD, 'version', 'trail')
if board[1] ~= args.version then return {'STALE'} end
local named, is_named, count = board[2] or '', false, 0
for zset in string.gmatch(named, '\n([^\n]+)') do
  is_named, count = is_named or zset == args.standing, count + 1
end
local is_over = redis.call('EXISTS', TRAIL) == 0 or not is_named and count == STANDINGS_MAX
if is_over then
  local time = redis.call('TIME')
  named, is_named = string.format('%d', time[1] * 1000000 + time[2]), false
  redis.call('DEL', TRAIL)
  redis.call('RPUSH', TRAIL, '')
end
if not is_named then
  named = named .. '\n' .. args.standing
  redis.call('HSET', BOARD, 'trail', named)
end
redis.call('EXPIRE', TRAIL, args.seconds)
return {'OK', string.match(named, '^%d+')}
