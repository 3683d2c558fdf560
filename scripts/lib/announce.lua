-- lib/announce.lua: tells all instances that something has changed, which they hear by news.lua.
--
-- Four keys go with each kind of thing that is announced: the ids of all that are there, all under score 0; ids by the
-- sequence number of their last change; the last sequence number; the epoch of these numbers. They begin anew where the epoch
-- is lost, and where the changes are forgotten, since too many of them are of things that were deleted. In a new epoch every
-- instance reads all.

local DELETED_MAX = 10000

local function announce(live, changes, sequence, epoch, id, is_live)
  local is_crowded = redis.call('ZCARD', changes) > redis.call('ZCARD', live) + DELETED_MAX
  if is_crowded then redis.call('UNLINK', changes) end
  if is_crowded or redis.call('EXISTS', epoch) == 0 then
    local time = redis.call('TIME')
    redis.call('SET', epoch, time[1] .. '.' .. time[2])
  end
  local number = redis.call('INCR', sequence)
  redis.call('ZADD', changes, number, id)
  if is_live then
    redis.call('ZADD', live, 0, id)
  else
    redis.call('ZREM', live, id)
  end
  return number
end
