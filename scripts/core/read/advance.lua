-- advance.lua: takes one standing of a derived series a bounded step nearer to complete.
-- Uses: lib/slot.lua, lib/members.lua, lib/keys.lua, lib/capture.lua, lib/past_initial.lua, lib/standing.lua, lib/derived.lua, lib/hidden.lua, lib/follow.lua, lib/trail.lua
--
-- The first call begins the standing. The caller repeats the call until the reply is DONE. Several callers may do so at
-- once, and each may stop at any time: the state holds everything that is needed to go on.
--
-- A rolling standing is a sum of terms. If the standing before it is complete, the script derives it from that one:
--     S(i) = R(i) + S(i-1) - R(i-N)
-- Otherwise it builds the standing from its periods: S(i) = R(i) + … + R(i-N+1). A standing with initial scores I is
-- S(i) = R(i) + I, and is built from scratch for each period. The script walks the members of every term with a cursor
-- (lib/cursor.lua), and lists each unlisted member with its sum. A cursor visits every member that does not change. It may
-- miss one that has an event meanwhile, but apply.lua lists that member with the event. So when the walk ends, all members
-- are listed. In a closed period, I is what the initial scores were when it was closed, and the walk also visits the
-- members whose initial scores have changed since (lib/past_initial.lua).
--
-- Takes: 5 keys or more, 1 argument
-- KEYS[1]  board, KEYS[2] registry, KEYS[3] state of the series (lib/derived.lua)
-- KEYS[4…] the standing's keys (`layout.width`), and then the standings of the periods
--          R(i), R(i-1), … R(i-N), newest first, or R(i) and I; `layout.width` keys each
--
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   layout     see lib/standing.lua
--   now        ms since the epoch
--   start, oldest   ms: where its newest and its oldest period begin
--   before     ms: where R(i-N) begins
--   previous   ms: where the newest period of S(i-1) begins
--   periods    N
--   initial    true: with initial scores; then also
--   floor      the tie key of the period's beginning
--   ends       ms: where the period ends
--   closes     ms: when the board closes, or the end of time
--   keep_from  ms: standings from this `start` on are kept; older ones are dropped if they
--   cache_ms   ms: have not been needed for this long, or
--   cache_max  number more than this
--   budget     about how many members × terms one call visits
--
-- Reply: {'DONE'} | {'MORE'} | {'STALE'}
--
-- Example: last-3-days at 2026-11-21, carried on from the day before:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:state:last-3-days  st:{b}:1:d:last-3-days:2026-11-21
--         st:{b}:1:s:day:2026-11-21  …20  …19  …18
--   reply {'MORE'} while members remain, then {'DONE'}

local MEMBERS_MIN = 16

local BOARD, REGISTRY, STATE, TARGET = KEYS[1], KEYS[2], KEYS[3], 4
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
local layout, names = args.layout, {}
local standings = open_standings(layout, names)
local PERIODS = TARGET + layout.width

local board = call('HMGET', BOARD, 'version', 'moving', 'hides', 'erased', 'closed_until', 'trail')
if board[1] ~= args.version then return {'STALE'} end
if board[3] then
  load_hides()
  open_hides(board[3], REGISTRY)
end
-- This script writes only to standings that are not complete. Those are not copied, so nothing is captured.
if board[2] then start_capture_of_drops(board[2]) end
local trail
if board[6] then
  load_trail()
  trail = open_trail(BOARD, REGISTRY, board[6])
end

-- Erased members that may still have data here: they are not listed.
local erasing = board[4] and beside_registry(REGISTRY, KIND_ERASING)

-- When the period ends, if its initial scores are those of a barrier in the past; nil if the current ones count.
local past_ends = args.initial and board[5] and math.min(args.ends, args.closes)
if past_ends and past_ends > tonumber(board[5]) then past_ends = nil end

-- Whether the terms may have lines of erased members (lib/nameless.lua). Such a line stays in the final standing of its
-- period, but is in no rolling one.
local skips_nameless = board[4] and board[5] and not args.initial

-- The standing of the period that is `back` periods before the newest.
local function period(back)
  return standing_at(standings, PERIODS + back * layout.width)
end

-- Drops old standings that were built for a read, once they are unused or too many.
local function retire(entries)
  local needed = {[args.previous] = true}
  for _, entry in ipairs(entries) do
    if not entry.done and entry.from then needed[entry.from] = true end
  end
  local places = {}
  for place, entry in ipairs(entries) do places[entry] = place end
  -- Sorted by when they were last needed; the list keeps that order.
  table.sort(entries, function(a, b)
    if a.used_at ~= b.used_at then return a.used_at < b.used_at end
    return places[a] < places[b]
  end)
  local kept, cached = {}, 0
  for place = #entries, 1, -1 do
    local entry = entries[place]
    local is_live = entry.start >= args.keep_from or needed[entry.start]
    if not is_live then cached = cached + 1 end
    if is_live or (cached <= args.cache_max and entry.used_at + args.cache_ms > args.now) then
      table.insert(kept, 1, entry)
    else
      drop_entry(entry)
    end
  end
  return kept
end

local function begin(entries)
  local target = standing_at(standings, TARGET)
  -- Left over, if the state has lost its entry.
  if call('EXISTS', unpack(keys_of(target))) > 0 then unlink_standing(target) end
  local entry = {
    start = args.start, oldest = args.oldest, used_at = args.now, done = false,
    zset = target.zset, hash = target.hash, dense = target.dense, total = target.total,
    walk = {term = 1, cursor = '0'}, terms = {},
  }
  local function keys_in(standing)
    return {zset = standing.zset, hash = standing.hash, dense = standing.dense, total = standing.total}
  end
  local function add_term(standing, sign, is_initial)
    local term = keys_in(standing)
    term.sign, term.is_initial = sign, is_initial
    table.insert(entry.terms, term)
  end
  add_term(period(0), 1)
  local previous = entry_at(entries, args.previous)
  if args.initial then
    entry.depends, entry.events, entry.floor = args.oldest, keys_in(period(0)), args.floor
    entry.ends = args.ends
    add_term(period(1), 1, true)
  elseif previous and previous.done then
    entry.from, entry.depends = previous.start, args.before
    add_term(previous, 1)
    add_term(period(args.periods), -1)
  else
    entry.depends = args.oldest
    for back = 1, args.periods - 1 do add_term(period(back), 1) end
  end
  call('SADD', REGISTRY, STATE, unpack(keys_of(entry)))
  return entry
end

-- The time and the data of a member whose sum in the standing before is zero: those of its newest period.
local function newest_time(id)
  for back = 1, args.periods - 1 do
    local scores, times, data = fetch(period(back), {id})
    if scores[1] and times[1] >= 0 then return times[1], data and data[1] end
  end
end

-- Members on the walk are parallel lists: their ids, and their scores, times and data in the walked term. The list of data
-- is nil unless the layout has data.

-- The members among these that the standing does not list, but may.
local function unlisted_of(target, ids, scores, times, data)
  if #ids == 0 then return ids, scores, times, data end
  local listed, is_erasing = fetch(target, ids), erasing and call('HMGET', erasing, unpack(ids)) or {}
  local other_ids, other_scores, other_times, other_data, count = {}, {}, {}, data and {}, 0
  for index = 1, #ids do
    if not listed[index] and not is_erasing[index] and not (skips_nameless and is_nameless(ids[index])) then
      count = count + 1
      other_ids[count], other_scores[count], other_times[count] = ids[index], scores[index], times[index]
      if data then other_data[count] = data[index] end
    end
  end
  return other_ids, other_scores, other_times, other_data
end

-- Lists members with their sum over the terms: those whose sum is not zero, or with initial scores those that a term lists.
-- `walked`: the term that these scores, times and data are of, nil for none.
local function settle(entry, terms, walked, target, ids, scores, times, data)
  if #ids == 0 then return end
  local sums, newest, newest_data, is_listed, has_initial = {}, {}, {}, {}, {}
  for index = 1, #ids do sums[index] = 0 end
  for _, term in ipairs(terms) do
    local term_scores, term_times, term_data = scores, times, data
    if term ~= walked then term_scores, term_times, term_data = fetch(term.standing, ids) end
    if past_ends and term.is_initial then term_scores = scores_in_past(REGISTRY, past_ends, ids, term_scores) end
    for index = 1, #ids do
      if term_scores[index] then
        sums[index], is_listed[index] = sums[index] + term.sign * term_scores[index], true
        local time = not term.is_initial and term_times[index]
        has_initial[index] = has_initial[index] or term.is_initial
        if time and term.sign > 0 and not newest[index] and (time >= 0 or args.initial) then
          newest[index], newest_data[index] = time, term_data and term_data[index]
        end
      end
    end
  end
  for index = 1, #ids do
    if sums[index] ~= 0 or (args.initial and is_listed[index]) then
      local time, own_data = with_initial(entry.floor, has_initial[index], newest[index], newest_data[index])
      if not time and layout.hashed then time, own_data = newest_time(ids[index]) end
      names[index] = ids[index]
      set(target, index, sums[index], time, own_data)
    end
  end
  flush(target)
  target.score, target.time, target.old_score, target.old_time = {}, {}, {}, {}
  if layout.data then target.data, target.old_data = {}, {} end
end

-- Walks about `count` members further; returns true at the end. `present`: the terms that have members. After the terms
-- come the members whose initial scores have changed since the period was closed.
local function walk_on(entry, terms, present, target, count)
  local walk = entry.walk
  while count > 0 and walk.term <= #terms do
    local walked = terms[walk.term]
    local ids, scores, times, data
    ids, scores, times, walk.cursor, data = scan_members(walked.standing, walk.cursor, count)
    if walk.cursor == '0' then walk.term = walk.term + 1 end
    count = count - math.max(1, #ids)
    settle(entry, present, walked, target, unlisted_of(target, ids, scores, times, data))
  end
  while past_ends and count > 0 and walk.term == #terms + 1 do
    local ids
    ids, walk.cursor = scan_fields(past_initial_key(REGISTRY), walk.cursor, count)
    if walk.cursor == '0' then walk.term = walk.term + 1 end
    count = count - math.max(1, #ids)
    settle(entry, present, nil, target, unlisted_of(target, ids, {}, {}, layout.data and {}))
  end
  return walk.term > #terms + (past_ends and 1 or 0)
end

local entries = derived_entries(STATE)
local entry, place = entry_at(entries, args.start)
if entry and entry.done then
  if entry.used_at + args.cache_ms / 2 < args.now then
    entry.used_at = args.now
    call('SET', STATE, cmsgpack.pack(entries))
  end
  return {'DONE'}
end
if entry and entry.from and not (entry_at(entries, entry.from) or {}).done then
  drop_entry(entry)
  table.remove(entries, place)
  entry = nil
end
if not entry then
  entries = retire(entries)
  entry = begin(entries)
  table.insert(entries, entry)
end

local target = open_standing(standings, entry)
local terms, present = {}, {}
for index, term in ipairs(entry.terms) do
  terms[index] = {standing = open_standing(standings, term), sign = term.sign, is_initial = term.is_initial}
  local was_there = past_ends and term.is_initial
  if was_there or call('EXISTS', term.zset) == 1 then table.insert(present, terms[index]) end
end
local count = math.max(math.min(MEMBERS_MIN, args.budget), math.floor(args.budget / math.max(1, #present)))
if walk_on(entry, terms, present, target, count) then
  entry.done, entry.terms, entry.depends, entry.from, entry.walk = true, nil, nil, nil, nil
end
call('SET', STATE, cmsgpack.pack(entries))
if trail then leave_trail(trail) end
return {entry.done and 'DONE' or 'MORE'}
