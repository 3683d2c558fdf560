-- initial.lua: sets or removes the initial scores of some members.
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/past_initial.lua, lib/standing.lua, lib/derived.lua, lib/erasures.lua, lib/hidden.lua, lib/follow.lua, lib/return.lua, lib/trail.lua
--
-- All existing standings that count initial scores follow at once, complete or not, except those of closed periods: these
-- still count the initial scores as of when they were closed (lib/past_initial.lua). If a score would pass the bound in a
-- standing that follows, the script changes nothing.
--
-- Takes: 4 keys or more, 1 argument
-- KEYS[1]  board, KEYS[2] registry
-- KEYS[3…] the standing of the initial scores (`layout.width` keys), and then the states of the series that count them
--          (lib/derived.lua)
--
-- ARGV[1]  MessagePack of a map:
--   version, layout, score_max   as in apply.lua
--   names      ids of the members, each named once
--   scores     their stored scores, false for none
--   time       a tie key, that of all initial scores
--   now        ms since the epoch
--   closes     ms since the epoch: when the board closes, or the end of time
--   kept_from  ms since the epoch: periods that ended before that are no longer kept
--
-- Reply: {'STALE'} | {'OUT_OF_RANGE', place in `names`}
--   | {'OK', how many members have an initial score, the stored scores that they had before (MessagePack; false for none)}
--   | {'ERASING'} data of erased members may remain: nothing done, remove it (forget.lua)
--
-- Example: 120 points for ann on a board with `initial: ["day"]`, ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:i:initial-scores:all  st:{b}:1:state:initial-day
--   ARGV  {version='1-1', …, names={'ann'}, scores={-120}, time=0}
--   reply {'OK', 1, pack({false})}

local BOARD, REGISTRY, SCORES = KEYS[1], KEYS[2], 3
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
local layout, scores = args.layout, args.scores
local names = args.names
local standings = open_standings(layout, names)

local board = call('HMGET', BOARD, 'version', 'moving', 'hides', 'erased', 'closed_until', 'trail')
if board[1] ~= args.version then return {'STALE'} end
if board[3] or board[4] then load_hides() end
if board[3] then open_hides(board[3], REGISTRY) end
if board[2] then start_capture(board[2]) end
local trail
if board[6] then
  load_trail()
  trail = open_trail(BOARD, REGISTRY, board[6])
end
local erasures = board[4] and load_erasures(REGISTRY, board[4], names) or {}
if board[4] and call('EXISTS', beside_registry(REGISTRY, KIND_ERASING)) == 1 then return {'ERASING'} end

local barrier = tonumber(board[5])

local members = {}
for m = 1, #names do members[m] = m end

-- The standing of the initial scores itself lists all members.
local own = standing_at(open_standings(layout_of_all(layout), names), SCORES)
own.kind = KIND_INITIAL_SCORES
load(own, members)
local before = {}
for m = 1, #names do before[m] = own.score[m] or false end

-- The changes to make: {entry, standing, m, score, time, data}. If a score drops in a truncated list, the standing is
-- dropped, and built again when it is needed.
local changes, states = {}, {}

-- Whether an entry's period is closed. An entry of an earlier release does not say when its period ends: if it may be
-- closed, its standing is dropped, and built again when it is needed.
local function is_closed(entry)
  if not barrier then return false end
  entry.is_dropped = not entry.ends and entry.start < barrier
  return entry.is_dropped or math.min(entry.ends or args.closes, args.closes) <= barrier
end

-- The index of a member whose score would pass the bound in an entry's standing, or nil.
local function look_up(entry)
  local standing, events = open_standing(standings, entry), open_standing(standings, entry.events)
  standing.kind = KIND_DERIVED
  load(standing, members)
  load(events, members)
  for m = 1, #names do
    local score = (events.score[m] or scores[m]) and (events.score[m] or 0) + (scores[m] or 0)
    if score and math.abs(score) > args.score_max then return m end
    local old_score = standing.score[m]
    local falls = old_score and (not score or score > old_score)
    entry.is_dropped = entry.is_dropped or (falls and layout.keep > 0)
    local time, data = with_initial(entry.floor, scores[m], events.time[m], events.data and events.data[m])
    table.insert(changes, {entry, standing, m, score, time, data})
  end
end

for place = SCORES + layout.width, #KEYS do
  local entries = derived_entries(KEYS[place])
  states[KEYS[place]] = entries
  for _, entry in ipairs(entries) do
    local beyond = not is_closed(entry) and look_up(entry)
    if beyond then return {'OUT_OF_RANGE', beyond} end
  end
end

for m, erasure in pairs(erasures) do
  if scores[m] then return_hide(BOARD, REGISTRY, erasure, names[m], args.now) end
end
for _, change in ipairs(changes) do
  local entry, standing, m, score, time, data = unpack(change, 1, 6)
  if not entry.is_dropped then set(standing, m, score, score and time or nil, data) end
end
for state, entries in pairs(states) do
  local kept = {}
  for _, entry in ipairs(entries) do
    if entry.is_dropped then
      drop_entry(entry)
    else
      flush(open_standing(standings, entry))
      kept[#kept + 1] = entry
    end
  end
  if #kept < #entries then call('SET', state, cmsgpack.pack(kept)) end
end
if barrier then
  local changed, scores_before = {}, {}
  for m = 1, #names do
    if before[m] ~= scores[m] then
      changed[#changed + 1] = names[m]
      scores_before[#scores_before + 1] = before[m]
    end
  end
  keep_past(REGISTRY, barrier, args.kept_from, changed, scores_before)
end
for m = 1, #names do set(own, m, scores[m], scores[m] and layout.hashed and args.time or nil) end
if flush(own) then call('SADD', REGISTRY, unpack(keys_of(own))) end
call('HSET', BOARD, 'used', args.version)
if trail then leave_trail(trail) end
return {'OK', count_members(own), cmsgpack.pack(before)}
