-- lib/hidden.lua: the hidden list of a standing: the entries of its hidden members, which reads leave out.
-- Uses: lib/keys.lua, lib/standing.lua
--
-- A hide changes no standing (lib/hides.lua). So that a read can count the hidden members ahead of an entry, a standing has
-- beside its own keys:
--   list     sorted set: the entries of hidden members, as they stand in the standing's own; with `keep`, also of those who
--            are behind the last that is listed
--   scores   if `dense`: sorted set of the distinct scores that only hidden members bear
--   state    hash: number: up to which line of the journal the list follows it; count, distinct: how many entries the list
--            and the scores have, so that a missing key is noticed; high, low: the sum of the hidden scores, if `summed`
-- They are made when a read first needs them, by hidden_list.lua, which then follows the journal line by line. A read takes a
-- list only if it has followed the journal to its end. In between `flush` keeps the list right (lib/follow.lua).
--
-- hides = {number, enough: the line up to which a list must have followed the journal, registry, journal (keys),
--          marks = id -> number of its last line, false: none}
-- standing.hidden = {list, scores, state (keys), number (nil: there is no list), count, distinct, high, low}

-- Where members of the shard were hidden; `number` is that of the last line, as text. Only a script that writes needs the
-- registry. A read that began before later lines may go by an earlier line, `enough`.
local function open_hides(number, registry, enough)
  hides = {number = tonumber(number), enough = enough or tonumber(number), registry = registry, marks = {}}
  hides.journal = registry and beside_registry(registry, KIND_HIDE_JOURNAL)
end

-- The hidden list of a standing.
local function hidden_of(standing)
  if standing.hidden then return standing.hidden end
  local keys = hidden_keys_of(standing.zset)
  local hidden = {list = keys[1], scores = keys[2], state = keys[3]}
  local stored = call('HMGET', hidden.state, 'number', 'count', 'distinct', 'high', 'low')
  hidden.number = stored[1] and tonumber(stored[1]) or nil
  hidden.count, hidden.distinct = tonumber(stored[2] or 0), tonumber(stored[3] or 0)
  hidden.high, hidden.low = tonumber(stored[4] or 0), tonumber(stored[5] or 0)
  standing.hidden = hidden
  return hidden
end

-- Whether the keys of a hidden list are all there.
local function is_list_whole(hidden)
  return hidden.number and call('ZCARD', hidden.list) == hidden.count
    and (hidden.distinct == 0 or call('ZCARD', hidden.scores) == hidden.distinct)
end

-- Whether a standing's hidden list can be believed: it is whole, and has followed the journal far enough; or the standing has
-- no members.
local function is_list_current(standing)
  local hidden = hidden_of(standing)
  if hidden.number then return hidden.number >= hides.enough and is_list_whole(hidden) end
  return count_members(standing) == 0
end
