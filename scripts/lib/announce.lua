-- lib/announce.lua: announces to all instances that something has changed; they learn it through news.lua.
--
-- Each kind of thing that is announced has four keys: the ids of all that exist, all under score 0; ids by the sequence
-- number of their last change; the last sequence number; the epoch of these numbers. The numbers begin again if the epoch
-- is lost, and if the changes are forgotten because too many of them are of deleted things. In a new epoch every instance
-- reads everything.

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
