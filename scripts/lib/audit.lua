-- lib/audit.lua: drops the oldest lines of the audit log, and keeps count of its bytes.
--
-- A line is an entry of a stream (`json`, `by`, `boards`, `members`) and, once the request was answered, its outcome: a
-- field of a hash, under the id of the entry.

-- About how many bytes a line takes in addition to its texts.
local LINE_BYTES = 200

-- How many bytes an entry of the stream takes.
local function size_of(fields)
  local size = LINE_BYTES
  for place = 2, #fields, 2 do size = size + #fields[place] end
  return size
end

-- Drops up to `count` of the oldest lines up to an id ('+' for any), with their outcomes; returns how many.
local function drop_oldest(log, outcomes, size_key, last, count)
  local ids, size = {}, 0
  for place, line in ipairs(redis.call('XRANGE', log, '-', last, 'COUNT', count)) do
    ids[place] = line[1]
    size = size + size_of(line[2]) + redis.call('HSTRLEN', outcomes, line[1])
  end
  if #ids == 0 then return 0 end
  redis.call('XDEL', log, unpack(ids))
  redis.call('HDEL', outcomes, unpack(ids))
  redis.call('DECRBY', size_key, size)
  return #ids
end
