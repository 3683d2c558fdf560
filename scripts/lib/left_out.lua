-- lib/left_out.lua: makes the hidden list of a standing within a read: for when Redis refuses to store it.
-- Uses: lib/keys.lua, lib/standing.lua, lib/hidden.lua
-- Loader: load_hides
--
-- Such a list is never stored. Instead of keys it has
--   ranks     the ranks of its entries in the sorted set, ascending
--   members   set of its entries, as the sorted set has them
--   only      if `dense`: the distinct scores that only hidden members have, ascending
-- and count, high, low and exact as every list (lib/hidden.lua).

-- How many lines of the journal a read looks at, for each member that it may leave out.
local LINES_OF_MEMBER = 8

-- The ids of all members that any key has as hidden, or that are being erased; nil if they, or the lines of the journal, are
-- too many.
local function ids_of_hidden(registry, count_max)
  local function key(kind) return beside_registry(registry, kind) end
  local hides_key, erasing = key(KIND_HIDES), key(KIND_ERASING)
  local is_large = call('HLEN', hides_key) > count_max or call('ZCARD', hides.hidden) > count_max
    or call('HLEN', erasing) > count_max or call('ZCARD', hides.journal) > LINES_OF_MEMBER * count_max
  if is_large then return nil end
  local is_added, ids = {}, {}
  local function add(id)
    if not is_added[id] then is_added[id], ids[#ids + 1] = true, id end
  end
  for _, id in ipairs(call('ZRANGE', hides.hidden, 0, -1)) do add(id) end
  for _, id in ipairs(call('HKEYS', hides_key)) do add(id) end
  for _, id in ipairs(call('HKEYS', erasing)) do add(id) end
  local lines = call('ZRANGE', hides.journal, 0, -1, 'WITHSCORES')
  for index = 1, #lines, 2 do
    if is_hide(tonumber(lines[index + 1])) then add(lines[index]) end
  end
  return #ids <= count_max and ids or nil
end

-- Takes scores with the number of hidden members that have each; returns those that no other member has.
local function only_of(standing, borne)
  local only = {}
  for score, count in pairs(borne) do
    local text = number_text(score)
    local of_all = call('ZCOUNT', standing.zset, text, text)
    if of_all > 0 and count >= of_all then only[#only + 1] = score end
  end
  table.sort(only)
  return only
end

-- Gives a standing a list of these members.
local function leave_out(standing, ids)
  local list = {exact = hidden_of(standing).exact, count = 0, high = 0, low = 0, ranks = {}, members = {}}
  local scores, times, borne = {}, {}, {}
  if #ids > 0 then scores, times = fetch(standing, ids) end
  for index, id in ipairs(ids) do
    local score = scores[index]
    if score then
      local member, high = prefix_of(standing.layout, times[index]) .. id, math.floor(score / LOW)
      list.count, list.members[member] = list.count + 1, true
      list.ranks[#list.ranks + 1] = call('ZRANK', standing.zset, member) or nil
      list.high, list.low = list.high + high, list.low + (score - high * LOW)
      borne[score] = (borne[score] or 0) + 1
    end
  end
  table.sort(list.ranks)
  list.only = standing.layout.dense and only_of(standing, borne)
  standing.hidden = list
end
