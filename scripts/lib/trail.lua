-- lib/trail.lua: leaves what a call has changed of standings of which instances keep mirrors (src/core/read/mirrors/mod.rs).
-- Uses: lib/keys.lua
-- Loader: load_trail
--
-- The trail of a shard is a list of records. A record is `changed` before and after a call, a line each, and then MessagePack:
-- the ids of the mirrored standings (name_mirrored.lua), and states, in the order in which they were written:
--   {id, whether the standing was empty before, list of score and sorted-set member of entries that were written,
--   list of ids of members that have left}
-- So a mirror at `changed` 7 can follow to 9 by the records from 7 to 8 and from 8 to 9, if both have the id of its standing.
-- A call that leaves no record breaks the trail, and with it the mirrors: that costs time, but never truth.

-- Opens the trail of a shard. `mirrored` is the field of its head.
local function open_trail(head, registry, mirrored)
  local trail = {head = head, key = trail_of(registry), ids = {}, states = {}}
  local named = {}
  for id, zset in string.gmatch(mirrored, '(%d+) %d+ ([^\n]+)') do
    trail.ids[#trail.ids + 1] = tonumber(id)
    named[zset] = tonumber(id)
  end
  note_state = function(standing, was_empty, written, gone)
    local id = named[standing.zset]
    if id then trail.states[#trail.states + 1] = {id, was_empty, written, gone} end
  end
  return trail
end

-- Leaves a record, as the last write of the call. Whether it is refused must not matter to what was written before.
local function leave_trail(trail)
  if not changed then return end
  local positions = (changed_before or '') .. '\n' .. changed .. '\n'
  local packed = cmsgpack.pack({trail.ids, trail.states})
  if #packed > RECORD_BYTES_MAX then packed = cmsgpack.pack({{}, {}}) end
  local length = redis.pcall('RPUSHX', trail.key, positions .. packed)
  if length == 0 then
    -- Nobody has asked for it lately.
    redis.pcall('HDEL', trail.head, 'mirrored')
  elseif type(length) == 'number' and length >= RECORDS_MAX + RECORDS_SPARE then
    redis.pcall('LTRIM', trail.key, -RECORDS_MAX, -1)
  end
end
