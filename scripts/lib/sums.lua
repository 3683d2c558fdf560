-- lib/sums.lua: applies events to derived standings, which are sums of others (lib/derived.lua).
-- Uses: lib/standing.lua, lib/derived.lua, lib/merge.lua, lib/record.lua
-- Loader: load_sums
--
-- A sum that an event concerns is {state, code, reported (0 | 1), column, start, base, expires, lists_zero, later, history}
-- (apply.lua). It is open once `open_sum` has found its entries. An entry that the event reaches is a target of the event,
-- like a standing of a period, with `sum`, `entry` and also `base`: the index among the targets of what the event writes in
-- the sum's own period.

-- The entries of the series, with their standings, by the key indexes of their states.
local opened = {}

local function entries_of_series(standings, state)
  if opened[state] then return opened[state] end
  local entries = derived_entries(KEYS[state])
  for _, entry in ipairs(entries) do
    entry.standing = open_standing(standings, entry)
    entry.standing.kind = KIND_DERIVED
    for _, term in ipairs(entry.terms or {}) do term.standing = open_standing(standings, term) end
  end
  opened[state] = entries
  return entries
end

-- A member's sum over terms, each {standing, sign}; false if the member is not to be listed.
local function sum_of_terms(sum, terms, m)
  local score, is_listed = 0, false
  for _, term in ipairs(terms) do
    local standing = term.standing
    if standing.score[m] == nil then load(standing, {m}) end
    if standing.score[m] then
      score, is_listed = score + term.sign * standing.score[m], true
    end
  end
  return (score ~= 0 or (is_listed and sum.lists_zero)) and score
end

-- Loads from the terms what a standing that is being built does not list yet.
local function load_terms(entry, members)
  local unlisted = {}
  for _, m in ipairs(members) do
    if not entry.standing.score[m] then unlisted[#unlisted + 1] = m end
  end
  for _, term in ipairs(entry.terms) do load(term.standing, unlisted) end
end

-- Whether an event of a sum's period can change what a standing holds, or is being built from.
local function reaches(sum, entry)
  return sum.start >= (entry.depends or entry.oldest) and sum.start <= entry.start
end

-- Notes that a sum has no standing that ends with the event's period, and loads its history, if that was sent.
local function open_absent(standings, route, sum)
  route.absent = route.absent or {}
  table.insert(route.absent, sum)
  if sum.reported == 1 then route.unranked = sum.code end
  sum.terms = {}
  for index, first in ipairs(sum.history) do
    local standing = standing_at(standings, first)
    sum.terms[index] = {standing = standing, sign = 1}
    load(standing, route.members)
  end
end

-- Opens a sum for the events of a route: adds its targets to those of the route, with `add_target`.
local function open_sum(standings, route, sum, now, add_target)
  local base_standing, base, has_own = standing_at(standings, sum.base), nil, false
  for index, target in ipairs(route.targets) do
    if target.standing == base_standing then base = index end
  end
  -- The event's period has expired.
  if not base then return end
  for _, entry in ipairs(entries_of_series(standings, sum.state)) do
    if reaches(sum, entry) then
      local is_own = entry.start == sum.start
      local is_reported = is_own and sum.reported == 1
      has_own = has_own or is_own
      local target = add_target(route, entry.standing, sum.column, sum.code, is_reported)
      target.sum, target.entry, target.base = sum, entry, base
      if not entry.done then load_terms(entry, route.members) end
      if is_reported and not entry.done then route.unranked = sum.code end
    end
  end
  if not has_own and (sum.expires == 0 or sum.expires > now) then open_absent(standings, route, sum) end
end

-- The time and the data of a member in a derived standing that does not list it: those of its newest period there, or else
-- of the event.
local function newest_time(standings, target, m, time, data)
  for _, after in ipairs(target.sum.later) do
    if after[1] <= target.entry.start then
      local standing = standing_at(standings, after[2])
      load(standing, {m})
      local later = standing.score[m] and standing.time[m]
      if later and later >= 0 then return later, standing.data and standing.data[m] end
    end
  end
  return time, data
end

-- Whether a member that has only zeros in a period has an initial score.
local function has_initial_score(standing, entry, m)
  if standing.score[m] then return standing.time[m] >= 0 end
  for _, term in ipairs(entry.terms or {}) do
    if term.is_initial then return term.standing.score[m] end
  end
end

-- The result of an event for a member in a derived standing: the new score (false: not listed), the score before, the new
-- time, and the new data. A score without a time is reported but not written: the walk lists the member (advance.lua).
-- `base_time`, `base_data`: what the member then has in the event's own period.
local function add_to_sum(standings, target, m, amount, at, data, base_time, base_data)
  local standing, entry, sum = target.standing, target.entry, target.sum
  local old_score, old_time = standing.score[m], standing.time[m]
  local is_within = sum.start >= entry.oldest
  if old_score and not is_within then return old_score, old_score, old_time, data and standing.data[m] end
  local before = old_score
  if not before and not entry.done then before = sum_of_terms(sum, entry.terms, m) end
  local score = before or 0
  if is_within then score = score + amount end
  if sum.lists_zero then
    local is_initial = base_time and base_time < 0 and has_initial_score(standing, entry, m)
    return score, before, with_initial(entry.floor, is_initial, base_time, base_data)
  end
  if amount == 0 then return before, before, old_time, data and standing.data[m] end
  if score == 0 then return false, before, nil, nil end
  if not standing.layout.hashed then return score, before, nil, nil end
  if not old_score then return score, before, newest_time(standings, target, m, base_time, base_data) end
  local time = latest(standing.layout, old_time, at)
  return score, before, time, data and merge_data(standing, m, score, time, amount, at, data, true)
end

-- Whether this amount takes a member's score past the bound in an absent sum, as far as its history was sent.
local function is_beyond(sum, m, amount, score_max)
  return #sum.terms > 0 and math.abs((sum_of_terms(sum, sum.terms, m) or 0) + amount) > score_max
end

local function report_absent(sum, m, amount)
  local before = sum_of_terms(sum, sum.terms, m)
  report(sum.code, (before or 0) + amount, before, true)
end
