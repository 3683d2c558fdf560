-- lib/visible.lua: a standing as it is shown: without its hidden members.
-- Uses: lib/standing.lua, lib/hidden.lua
-- Loader: load_visible
--
-- Everything that reads a standing counts in positions: how many visible entries come before. The rank of an entry in the
-- sorted set is its position plus the number of hidden entries before it. A standing whose hidden list was not read
-- (`hidden` is nil) shows all members.

-- The hidden list of a standing, nil if it has no entries.
local function hidden_entries(standing)
  local hidden = standing.hidden
  return hidden and hidden.count > 0 and hidden or nil
end

-- How many members a standing has, listed or not.
local function visible_total(standing)
  local hidden = standing.hidden
  return count_members(standing) - (hidden and hidden.count or 0)
end

-- How many entries of a sorted set come before this one, which need not be in it; without a member, before all that have
-- this score. Among equal scores a binary search finds that.
local function count_before(key, score, member)
  local low = call('ZCOUNT', key, '-inf', '(' .. score)
  if not member then return low end
  local own = call('ZRANK', key, member)
  if own and own >= low then return own end
  return first_without(low, low + call('ZCOUNT', key, score, score), function(rank)
    return is_before(call('ZRANGE', key, rank, rank)[1], member)
  end)
end

-- The position of an entry that is not hidden, or would not be, and has this rank in the sorted set. In a truncated list nothing
-- is known after the exact entries.
local function position_at(standing, hidden, rank, score, member)
  if standing.layout.keep == 0 and not hidden.ranks then return rank - count_before(hidden.list, score, member) end
  rank = math.min(rank, exact_of(standing, hidden))
  return rank - hidden_before_rank(standing, hidden, rank)
end

-- The position of an entry that need not exist; without a member, of the first that has this score or a worse one.
local function position_of(standing, score, member)
  local hidden, rank = hidden_entries(standing), count_before(standing.zset, score, member)
  return hidden and position_at(standing, hidden, rank, score, member) or rank
end

-- How many entries, or distinct scores, are better than this score. `ranking`: 'competition', 'dense'.
local function count_ahead(standing, ranking, score)
  if ranking ~= 'dense' then return position_of(standing, score) end
  local hidden = hidden_entries(standing)
  return call('ZCOUNT', standing.dense, '-inf', '(' .. score) - (hidden and hidden_scores_before(hidden, score) or 0)
end

-- How many entries a standing lists.
local function listed_of(standing)
  local shown, hidden = standing.layout.shown, standing.hidden
  if shown == 0 then return call('ZCARD', standing.zset) - (hidden and hidden.count or 0) end
  if not hidden then return math.min(shown, call('ZCARD', standing.zset)) end
  return math.min(shown, visible_exact_of(standing, hidden))
end

-- Whether too many members are hidden for a standing with a truncated list to be shown.
local function is_short(standing)
  local hidden, layout = standing.hidden, standing.layout
  if not hidden or layout.keep == 0 or hidden.exact - hidden.count >= layout.shown then return false end
  return listed_of(standing) < math.min(layout.shown, visible_total(standing))
end

-- The entries from one position to another, both included, in the form of ZRANGE with scores.
local function visible_entries(standing, hidden, from, to)
  local found, shown, wanted, size = {}, 0, to - from + 1, 0
  local rank = from + hidden_before(standing, hidden, from)
  while shown < wanted do
    size = math.max(math.min(2 * size, 1000), wanted - shown, 32)
    local part = call('ZRANGE', standing.zset, rank, rank + size - 1, 'WITHSCORES')
    if #part == 0 then break end
    local members, shown_before = {}, shown
    for index = 1, #part, 2 do members[(index + 1) / 2] = part[index] end
    local is_hidden = hidden_among(hidden, members)
    for index = 1, #part, 2 do
      if not is_hidden[(index + 1) / 2] and shown < wanted then
        shown = shown + 1
        found[2 * shown - 1], found[2 * shown] = part[index], part[index + 1]
      end
    end
    rank = rank + #part / 2
    if shown == shown_before then
      -- There may be long runs of hidden members at the top.
      rank = from + shown + hidden_before(standing, hidden, from + shown)
    end
  end
  return found
end

-- Like `visible_entries`, for any standing.
local function seen_entries(standing, from, to)
  local hidden, shown = hidden_entries(standing), standing.layout.shown
  if shown > 0 then to = math.min(to, (hidden and listed_of(standing) or shown) - 1) end
  if hidden then return from <= to and visible_entries(standing, hidden, from, to) or {} end
  return call('ZRANGE', standing.zset, from, to, 'WITHSCORES')
end

-- The position of an entry that is stored with this score (text) and this member of the sorted set: -1 if it is after the
-- last listed one, nil if it is hidden.
local function position_of_entry(standing, score, member)
  local position, hidden, shown = call('ZRANK', standing.zset, member), hidden_entries(standing), standing.layout.shown
  if hidden then
    if hidden_among(hidden, {member})[1] then return nil end
    position = position and position_at(standing, hidden, position, score, member)
  end
  return position and (shown == 0 or position < shown) and position or -1
end
