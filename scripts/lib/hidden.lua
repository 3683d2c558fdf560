-- lib/hidden.lua: the hidden list of a standing: the entries of its hidden members, which reads skip.
-- Uses: lib/keys.lua, lib/standing.lua
-- Loader: load_hides
--
-- A hide changes no standing (lib/hides.lua). So that a read can count the hidden members before an entry, a standing has
-- in addition to its own keys:
--   list     sorted set: the entries of hidden members, as they are in the standing's own; with `keep`, also those of
--            members after the last listed one
--   scores   if `dense`: sorted set of the distinct scores that only hidden members have
--   state    hash: number: the line of the journal up to which the list is current; count, distinct: how many entries the
--            list and the scores have, so that a missing key is noticed; high, low: the sum of the hidden scores, if
--            `summed`; exact, walk, wide: see below
-- They are made by hidden_list.lua when a read first needs them; after that it follows the journal line by line. A read
-- uses a list only if it has followed the journal to its end. In between, `flush` keeps the list correct (lib/follow.lua).
-- If Redis refuses to store a list, the read makes one for itself (lib/left_out.lua).
--
-- A truncated list (`keep`) has a spare, so that hidden members can be left out of it. Each of them raises the number of
-- entries to keep by two, but it takes a walk over all members to find out which others belong to it (widen_list.lua). The
-- first `exact` entries (`keep` of them, if the state says nothing) are certainly the best; if all members are listed, all
-- entries are. If too few of these are visible, the standing can't be shown. `walk` is the cursor of such a walk, and `wide` how
-- many entries are exact when it has ended.
--
-- hides = {number, enough: the line up to which a list must have followed the journal, registry, journal, hidden (keys),
--          marks = id -> number of its last line, false: none; 1 if the set of hidden members has it}
-- standing.hidden = {list, scores, state (keys), number (nil: there is no list; -1: see hidden_list.lua), count, distinct,
--                    high, low, exact, walk, wide; of a list that is not stored also ranks, …: see lib/left_out.lua}

-- Called if members of the shard were hidden; `number` is that of the last line, as text. Only a script that writes needs
-- the registry. A read that began before the latest lines may rely on an earlier line, `enough`.
local function open_hides(number, registry, enough)
  hides = {number = tonumber(number), enough = enough or tonumber(number), registry = registry, marks = {}}
  if not registry then return end
  hides.journal, hides.hidden = beside_registry(registry, KIND_HIDE_JOURNAL), beside_registry(registry, KIND_HIDDEN)
end

-- Whether a line of the journal with this number hides its member.
local function is_hide(number)
  return number and number % 2 ~= 0
end

-- Loads the marks of these members. A member that the journal or the set of hidden members has as hidden counts as hidden.
local function load_marks(ids)
  local missing, marks = {}, hides.marks
  for _, id in ipairs(ids) do
    if marks[id] == nil then missing[#missing + 1] = id end
  end
  if #missing == 0 then return end
  local listed = call('ZMSCORE', hides.hidden, unpack(missing))
  for index, number in ipairs(call('ZMSCORE', hides.journal, unpack(missing))) do
    marks[missing[index]] = listed[index] and 1 or number and tonumber(number)
  end
end

-- The hidden list of a standing.
local function hidden_of(standing)
  if standing.hidden then return standing.hidden end
  local keys = hidden_keys_of(standing.zset)
  local hidden = {list = keys[1], scores = keys[2], state = keys[3]}
  local stored = call('HMGET', hidden.state, 'number', 'count', 'distinct', 'high', 'low', 'exact', 'walk', 'wide')
  hidden.number = stored[1] and tonumber(stored[1]) or nil
  hidden.count, hidden.distinct = tonumber(stored[2] or 0), tonumber(stored[3] or 0)
  hidden.high, hidden.low = tonumber(stored[4] or 0), tonumber(stored[5] or 0)
  hidden.exact = tonumber(stored[6] or standing.layout.keep)
  hidden.walk, hidden.wide = stored[7] or nil, tonumber(stored[8] or 0)
  standing.hidden = hidden
  return hidden
end

-- How many entries of a truncated list are certainly the best.
local function exact_of(standing, hidden)
  local listed = call('ZCARD', standing.zset)
  return listed == count_members(standing) and listed or math.min(hidden.exact, listed)
end

-- The rank in the sorted set of the entry with this index in a hidden list; nil if it is after the last listed one.
local function rank_of_hidden(standing, hidden, index)
  if hidden.ranks then return hidden.ranks[index + 1] end
  local rank = call('ZRANK', standing.zset, call('ZRANGE', hidden.list, index, index)[1])
  invariant(rank or standing.layout.keep > 0, 'a hidden entry is in its sorted set')
  return rank
end

-- Which of these members of the sorted set are hidden: false for those that are not.
local function hidden_among(hidden, members)
  if not hidden.ranks then return call('ZMSCORE', hidden.list, unpack(members)) end
  local found = {}
  for index, member in ipairs(members) do found[index] = hidden.members[member] or false end
  return found
end

-- How many distinct scores that are better than this one only hidden members have.
local function hidden_scores_before(hidden, score)
  if not hidden.ranks then return call('ZCOUNT', hidden.scores, '-inf', '(' .. score) end
  local own = tonumber(score)
  return first_without(0, #hidden.only, function(index) return hidden.only[index + 1] < own end)
end

-- How many hidden entries are before the entry with this rank in the sorted set.
local function hidden_before_rank(standing, hidden, rank)
  return first_without(0, hidden.count, function(index)
    local own = rank_of_hidden(standing, hidden, index)
    return own and own < rank
  end)
end

-- How many hidden entries are before the visible one at this position.
local function hidden_before(standing, hidden, position)
  return first_without(0, hidden.count, function(index)
    local own = rank_of_hidden(standing, hidden, index)
    return own and own - index <= position
  end)
end

-- How many entries of a truncated list are certainly the best, and visible.
local function visible_exact_of(standing, hidden)
  local exact = exact_of(standing, hidden)
  return exact - hidden_before_rank(standing, hidden, exact)
end

-- Whether a truncated list has used up half of its spare, so that more of its members have to be found.
local function is_list_narrow(standing, hidden)
  local keep, shown = standing.layout.keep, standing.layout.shown
  local enough = shown + (keep - shown) / 2
  if keep == 0 or hidden.exact - hidden.count >= enough then return false end
  return exact_of(standing, hidden) < count_members(standing) and visible_exact_of(standing, hidden) < enough
end

-- Whether no key of a hidden list is missing.
local function is_list_whole(hidden)
  return hidden.number and call('ZCARD', hidden.list) == hidden.count
    and (hidden.distinct == 0 or call('ZCARD', hidden.scores) == hidden.distinct)
end

-- Whether a standing's hidden list can be trusted: it is whole and far enough in the journal, or there are no members. A list
-- that is further than the journal is of data that was lost.
local function is_list_current(standing)
  local hidden = hidden_of(standing)
  local number = hidden.number
  if number then return number >= hides.enough and number <= hides.number and is_list_whole(hidden) end
  return count_members(standing) == 0
end
