-- lib/visible.lua: a standing as it is seen: without its hidden members.
-- Uses: lib/standing.lua, lib/hidden.lua
--
-- Everything that reads a standing counts in positions: how many visible entries are ahead. The rank of an entry in the
-- sorted set is its position and the number of the hidden entries ahead of it. A standing whose hidden list was not looked at
-- (`hidden` is nil) shows everybody.

-- The hidden list of a standing, nil if it has no entries.
local function hidden_entries(standing)
  local hidden = standing.hidden
  return hidden and hidden.count > 0 and hidden or nil
end

-- How many members a standing has, listed or not.
local function total_of(standing)
  if not standing.total_count then
    local hidden = hidden_entries(standing)
    standing.total_count = count_members(standing) - (hidden and hidden.count or 0)
  end
  return standing.total_count
end

-- Whether the bytes of one text sort before those of another, as Redis sorts them.
local function is_before(one, other)
  for index = 1, math.min(#one, #other) do
    local byte, other_byte = string.byte(one, index), string.byte(other, index)
    if byte ~= other_byte then return byte < other_byte end
  end
  return #one < #other
end

-- How many entries of a sorted set are ahead of this one, which need not be in it; without a member, of all that have this
-- score. Among equal scores a binary search finds that.
local function count_before(key, score, member)
  local low = call('ZCOUNT', key, '-inf', '(' .. score)
  if not member then return low end
  local own = call('ZRANK', key, member)
  if own and own >= low then return own end
  local high = low + call('ZCOUNT', key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(call('ZRANGE', key, middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The position of an entry that need not be there; without a member, of the first that has this score or a worse one.
local function position_of(standing, score, member)
  local hidden = hidden_entries(standing)
  return count_before(standing.zset, score, member) - (hidden and count_before(hidden.list, score, member) or 0)
end

-- How many entries, or distinct scores, are ahead of all that have this score. `ranking`: 'competition', 'dense'.
local function count_ahead(standing, ranking, score)
  if ranking ~= 'dense' then return position_of(standing, score) end
  local hidden, up_to = hidden_entries(standing), '(' .. score
  return call('ZCOUNT', standing.dense, '-inf', up_to) - (hidden and call('ZCOUNT', hidden.scores, '-inf', up_to) or 0)
end

-- How many hidden entries are ahead of the visible entry at this position.
local function hidden_before(standing, hidden, position)
  local low, high = 0, hidden.count
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = call('ZRANK', standing.zset, call('ZRANGE', hidden.list, middle, middle)[1])
    invariant(rank or standing.layout.keep > 0, 'a hidden entry is in its sorted set')
    if rank and rank - middle <= position then low = middle + 1 else high = middle end
  end
  return low
end

-- How many entries a standing lists.
local function listed_of(standing)
  local listed, hidden = call('ZCARD', standing.zset), hidden_entries(standing)
  if not hidden then return listed end
  if standing.layout.keep == 0 then return listed - hidden.count end
  return listed - hidden_before(standing, hidden, listed)
end

-- The entries from one position to another, both included, as ZRANGE tells them with scores.
local function visible_entries(standing, hidden, from, to)
  local found, shown, wanted, size = {}, 0, to - from + 1, 0
  local before = hidden_before(standing, hidden, from)
  local rank = from + before
  while shown < wanted do
    size = math.max(math.min(2 * size, 1000), wanted - shown, 32)
    local part = call('ZRANGE', standing.zset, rank, rank + size - 1, 'WITHSCORES')
    if #part == 0 then break end
    local is_hidden, shown_before = {}, shown
    for _, member in ipairs(call('ZRANGE', hidden.list, before, before + #part / 2 - 1)) do is_hidden[member] = true end
    for index = 1, #part, 2 do
      if is_hidden[part[index]] then
        before = before + 1
      elseif shown < wanted then
        shown = shown + 1
        found[2 * shown - 1], found[2 * shown] = part[index], part[index + 1]
      end
    end
    rank = rank + #part / 2
    if shown == shown_before then
      -- Hidden members may stand in long runs at the top.
      before = hidden_before(standing, hidden, from + shown)
      rank = from + shown + before
    end
  end
  return found
end

-- The same for any standing.
local function entries_of(standing, from, to)
  local hidden = hidden_entries(standing)
  if hidden and from <= to then return visible_entries(standing, hidden, from, to) end
  return call('ZRANGE', standing.zset, from, to, 'WITHSCORES')
end

-- The position of an entry that is stored with this score (text) and this member of the sorted set: -1 if it is behind the
-- last that is listed, nil if it is hidden.
local function position_of_entry(standing, score, member)
  local rank, hidden = call('ZRANK', standing.zset, member), hidden_entries(standing)
  if not hidden then return rank or -1 end
  if call('ZSCORE', hidden.list, member) then return nil end
  return rank and rank - count_before(hidden.list, score, member) or -1
end
