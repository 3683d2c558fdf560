-- lib/trail.lua: leaves what a call has changed of standings of which an export reads a snapshot (src/core/read/snapshot/).
-- Uses: lib/keys.lua, lib/standing.lua, lib/hidden.lua
-- Loader: load_trail
--
-- The trail of a shard is a list of links. A link is `changed` before and after a call, a line each, and then MessagePack of
-- a list of states, in the order in which they were written:
--   {sorted set, whether the standing was empty before, entries that have left, entries that have come}
-- Entries are lists of {whether the member is hidden, score, sorted-set member}; a member whose score changes leaves with the old
-- one. So a snapshot at `changed` 7 gets to 9 by the links from 7 to 8 and from 8 to 9. A call that leaves no link breaks the
-- trail, and the snapshot begins again: that costs time, but never truth.
--
-- The field `trail` of the head has the token of the trail and the sorted sets that it covers, a line each (begin_trail.lua). It
-- covers each from when it was named to its end, so links up to now under a token cover what is named under it.

-- The entries with which changes, as those of `flush`, begin (`score_at` 2) or end (4).
local function linked_entries(standing, changes, score_at)
  local entries = {}
  for _, change in ipairs(changes) do
    local m, score = change[1], change[score_at]
    if score then
      local is_hidden = hides and is_hide(hides.marks[standing.names[m]]) or false
      entries[#entries + 1] = {is_hidden, score, zmember(standing, m, change[score_at + 1])}
    end
  end
  return entries
end

-- Opens the trail of a shard. `named` is the field of its head.
local function open_trail(head, registry, named)
  local trail, is_named = {head = head, key = trail_of(registry), states = {}}, {}
  for zset in string.gmatch(named, '\n([^\n]+)') do is_named[zset] = true end
  note_state = function(standing, changes, was_empty)
    if not is_named[standing.zset] then return end
    local ids = {}
    for index, change in ipairs(changes) do ids[index] = standing.names[change[1]] end
    if hides then load_marks(ids) end
    local gone, come = linked_entries(standing, changes, 2), linked_entries(standing, changes, 4)
    trail.states[#trail.states + 1] = {standing.zset, was_empty, gone, come}
  end
  return trail
end

-- Leaves a link, as the last write of the call. What was written before holds even if it is refused.
local function leave_trail(trail)
  if not changed or changes_shown then return end
  local link = (changed_before or '') .. '\n' .. changed .. '\n' .. cmsgpack.pack(trail.states)
  if #link > LINK_BYTES_MAX then return end
  local length = redis.pcall('RPUSHX', trail.key, link)
  if length == 0 then
    -- It has expired.
    redis.pcall('HDEL', trail.head, 'trail')
  elseif type(length) == 'number' and length >= 2 * LINKS_MAX then
    redis.pcall('LTRIM', trail.key, -LINKS_MAX, -1)
  end
end
