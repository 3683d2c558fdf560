-- lib/follow.lua: keeps the hidden list of a standing correct when entries change (lib/hidden.lua).
-- Uses: lib/standing.lua, lib/hidden.lua
-- Loader: load_hides
--
-- For each member with a line in the journal, `flush` removes the old entry from the list, and adds the new one if the
-- member is hidden. So a list that is behind the journal may have an entry too early. It has no entry that its member no
-- longer has, unless it is behind `hides_from` and so will be built from scratch: until then a member that was brought back
-- keeps its line.

-- Lets keys that may be new expire with their standing.
local function keep_with(standing, ...)
  call('SADD', hides.registry, ...)
  local expires = call('PEXPIRETIME', standing.zset)
  if expires <= 0 then return end
  for _, key in ipairs({...}) do call('PEXPIREAT', key, number_text(expires)) end
end

-- Adds scores, if there are any, to the sum of the hidden ones, or subtracts them (-1).
local function add_hidden(hidden, scores, sign)
  for _, score in ipairs(scores) do
    if score then
      local high = math.floor(score / LOW)
      hidden.high, hidden.low = hidden.high + sign * high, hidden.low + sign * (score - high * LOW)
    end
  end
end

local function remove_entries(standing, hidden, members)
  if #members == 0 or hidden.count == 0 then return end
  if standing.layout.summed then add_hidden(hidden, call('ZMSCORE', hidden.list, unpack(members)), -1) end
  hidden.count = hidden.count - call('ZREM', hidden.list, unpack(members))
end

local function add_entries(standing, hidden, members, scores)
  if #members == 0 then return end
  if standing.layout.summed then
    add_hidden(hidden, call('ZMSCORE', hidden.list, unpack(members)), -1)
    add_hidden(hidden, scores, 1)
  end
  local pairs_of = {}
  for index, member in ipairs(members) do
    pairs_of[2 * index - 1], pairs_of[2 * index] = number_text(scores[index]), member
  end
  local was_empty = hidden.count == 0
  hidden.count = hidden.count + call('ZADD', hidden.list, unpack(pairs_of))
  if was_empty then keep_with(standing, hidden.list) end
end

-- Notes which of these scores (the keys of a table) only hidden members have.
local function follow_scores(standing, hidden, scores)
  local added = 0
  for score in pairs(scores) do
    local text = number_text(score)
    local borne = call('ZCOUNT', standing.zset, text, text)
    if borne > 0 and call('ZCOUNT', hidden.list, text, text) >= borne then
      added = added + call('ZADD', hidden.scores, text, text)
    else
      call('ZREM', hidden.scores, text)
    end
  end
  if added > 0 then keep_with(standing, hidden.scores) end
  hidden.distinct = call('ZCARD', hidden.scores)
end

-- Begins a list from scratch, which then follows the journal up to this line.
local function begin_list(standing, number)
  local hidden = hidden_of(standing)
  call('UNLINK', hidden.list, hidden.scores)
  hidden.number, hidden.count, hidden.distinct, hidden.high, hidden.low = number, 0, 0, 0, 0
end

local function store_list(standing)
  local hidden, layout = standing.hidden, standing.layout
  local is_new = call('HSET', hidden.state, 'number', number_text(hidden.number), 'count', number_text(hidden.count)) > 0
  if layout.dense then call('HSET', hidden.state, 'distinct', number_text(hidden.distinct)) end
  if layout.summed then call('HSET', hidden.state, 'high', number_text(hidden.high), 'low', number_text(hidden.low)) end
  if is_new then keep_with(standing, hidden.state) end
end

-- Changes a list: members of the sorted set that were removed; members that were added, with their scores; and the scores
-- whose members may have changed.
local function change_list(standing, gone, added, scores, touched)
  local hidden = hidden_of(standing)
  local was_empty = hidden.count == 0
  remove_entries(standing, hidden, gone)
  add_entries(standing, hidden, added, scores)
  local concerns = not (was_empty and hidden.count == 0)
  if concerns and standing.layout.dense then follow_scores(standing, hidden, touched) end
  return concerns
end

local function set_exact(standing, exact)
  local hidden = hidden_of(standing)
  if exact == hidden.exact then return end
  hidden.exact = exact
  if call('HSET', hidden.state, 'exact', number_text(exact)) > 0 then keep_with(standing, hidden.state) end
end

-- How many entries a truncated list keeps. Entries after these are about to be removed.
bound_of = function(standing)
  local hidden = hidden_of(standing)
  local bound = standing.layout.keep + 2 * hidden.count
  local listed = call('ZCARD', standing.zset)
  if listed > bound then
    set_exact(standing, listed == count_members(standing) and bound or math.min(hidden.exact, bound))
    if hidden.walk and hidden.wide > bound then
      hidden.wide = bound
      call('HSET', hidden.state, 'wide', number_text(bound))
    end
  end
  return bound
end

-- Notes that a member of the sorted set is about to be removed, though no other is known to take its place.
note_lost = function(standing, member)
  local rank, hidden = call('ZRANK', standing.zset, member), hidden_of(standing)
  if rank and rank < hidden.exact then set_exact(standing, hidden.exact - 1) end
  if rank and hidden.walk and rank < hidden.wide then
    hidden.wide = hidden.wide - 1
    call('HSET', hidden.state, 'wide', number_text(hidden.wide))
  end
end

-- Called by `flush`. Each change is {member, old score, old time, score, time}.
follow_changes = function(standing, changes, is_new)
  if is_new then begin_list(standing, hides.number) end
  if not hidden_of(standing).number then return end
  local ids, names = {}, standing.names
  for index, change in ipairs(changes) do ids[index] = names[change[1]] end
  load_marks(ids)
  local gone, added, scores, touched = {}, {}, {}, {}
  for index, change in ipairs(changes) do
    local m, old_score, old_time, score, time = unpack(change, 1, 5)
    local mark = hides.marks[ids[index]]
    if mark and old_score then gone[#gone + 1] = zmember(standing, m, old_time) end
    if is_hide(mark) and score then
      added[#added + 1], scores[#scores + 1] = zmember(standing, m, time), score
    end
    if old_score then touched[old_score] = true end
    if score then touched[score] = true end
  end
  if change_list(standing, gone, added, scores, touched) or is_new then store_list(standing) end
end
