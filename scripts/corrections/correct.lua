-- correct.lua: changes rows of a member, or adds one, and makes its entries again from what then counts (lib/history.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/changed.lua, lib/standing.lua, lib/hidden.lua, lib/follow.lua, lib/return.lua, lib/flush_last.lua, lib/expiry.lua, lib/periods.lua, lib/erasures.lua, lib/record.lua, lib/turnouts.lua, lib/ordered.lua, lib/history.lua, lib/derived.lua, lib/sums.lua, lib/past_initial.lua, lib/trail.lua
--
-- The caller has read the rows of the member since the correction began (watch.lua), and says what they add to each
-- standing, in one call or in several: those before the last one only fold. The last one changes everything in one step,
-- unless the member has got further rows meanwhile: then it returns them, and changes nothing.
--
-- A closed period whose entry changes is noted in the hash `corrected`, name -> `number line`, until its result includes that
-- (src/periods/revisions/corrected.rs). `number`: that of the last correction of a closed period, as in the field `corrected` of
-- the head. `line`: 0 if the member was visible; otherwise the last line of the journal of hides (lib/hides.lua): a result that
-- covers this line does not show the member.
--
-- Takes: 2 keys or more, 1 argument or more
-- KEYS[1]  head of the shard, KEYS[2] registry
-- KEYS[3…] named by their index in the arguments: standings (`layout.width` keys each), states of derived series, hashes of
--          turnouts
-- ARGV[1]  MessagePack of a map:
--   version, now, layout, update, score_max   as in apply.lua
--   number      that of the correction
--   member      its id
--   standings   list of {key index, expires, ends (ms, 0: never), name, is_unkept, list of what rows add: {stored amount,
--               tie key, data}, expires_closed}. `expires_closed`: when it expires once its period is closed. `name`: of the period, if it gets a result when it is closed; otherwise ''. `is_unkept`: whether
--               events without rows may count
--   is_last     false: the call only folds
--   is_moving   whether the board moves: then closed periods are not changed
--   seen        how many bytes of the listed texts the caller has seen
--   rows_max    how many further rows a reply has at most
--   until       until when others wait for the correction (ms), if the call only folds
--   sums        list of {state (key index), starts, has_initial, periods}: a derived series. `starts`: where the periods of
--               its base begin that are changed, ms; `periods`: list of {start, key index of the standing}, those of its
--               base that may be in one sum with them, newest first
--   initial     key index of the standing of the initial scores, 0: none
--   closes      as in initial.lua
--   turnouts, tag, by_member   `periods`, `tag` and `by_member` of `turnouts` in apply.lua, no periods if nothing is counted. Each
--               period also has ends, expires_closed, and how many of its events count more than before, but for an added one
--   revocation  as in apply.lua, for the row of an event that is added
--   added       of an event that is added, alone: {fingerprint, tie key, voter ('' for none)}
-- ARGV[2…] for each of `standings`: its fold from the call before, '' at the beginning; and then for each row: its id; the row
--          as the caller has read it, '' for one that is added; the row from now on, or of one that is added what it has after
--          the record
--
-- Reply: {'STALE'} | {'AGAIN'}: the watch has ended, or a row is another one
--   | {'FOLDED', for each of `standings`: its fold}
--   | {'MORE', how many bytes of the listed texts the caller has seen then, for each text of a further row: its text in the index of the member,
--     its row}
--   | {'GONE'}: the member is being erased
--   | {'ERASED', instant}, {'REUSED'}: an added event is refused; as in apply.lua
--   | {'CLOSED'}: a period is closed, and the board moves
--   | {'OUT_OF_RANGE'}: a score would pass the bound
--   | {'OK', places in `standings` of those that have expired}
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:s:all:all
--   ARGV {version='1-1', …, number='7', member='ann', standings={{3, 0, 0, {}}}, is_last=true, …} '' 'run-1' '…' '…'
--   reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local layout, member = args.layout, args.member
local head = call('HMGET', HEAD, 'version', 'watched', 'moving', 'hides', 'closed_until', 'erased', 'accepted', 'trail')
if head[1] ~= args.version then return {'STALE'} end
load_history()
local number, _, watched = parts_of_watch(head[2])
if number ~= args.number or watched ~= member then return {'AGAIN'} end
local history = open_history(HEAD, REGISTRY, layout)

local standings, added = open_standings(layout, {member}), args.added

-- Ends a correction that changes nothing.
local function refuse(...)
  end_watch(history)
  return {...}
end

-- The member's folded entry in a standing. If it has no row there, that is its entry.
local function folded_entry(key, is_unkept)
  local packed = call('HGET', folded_of(KEYS[key]), member)
  if packed or not is_unkept then return unpack_entry(layout, packed) end
  local standing = standing_at(standings, key)
  load(standing, {1})
  if not standing.score[1] then return nil end
  return {score = standing.score[1], time = standing.time[1], data = standing.data and standing.data[1]}
end

local folds = {}
for place, standing in ipairs(args.standings) do
  local packed = ARGV[place + 1]
  local fold = packed ~= '' and cmsgpack.unpack(packed) or begin_fold(folded_entry(standing[1], standing[5]))
  fold_events(layout, args.update, fold, standing[6])
  folds[place] = fold
end
if not args.is_last then
  local reply = {'FOLDED'}
  for place, fold in ipairs(folds) do reply[place + 1] = cmsgpack.pack(fold) end
  renew_watch(history, number, args['until'], member)
  return reply
end

local listed = texts_in(texts_watched(history, args.seen))
if #listed > 0 then
  local reply, seen = {'MORE', 0}, args.seen
  for place = 1, math.min(#listed, args.rows_max) do
    local text = listed[place]
    reply[#reply + 1], reply[#reply + 2] = text, call('HGET', history.rows, id_of_member(text)) or ''
    seen = seen + #pack_text(text)
  end
  reply[2] = seen
  return reply
end
-- The ids of the rows, and the rows from now on.
local ids, after = {}, {}
local first = #args.standings + 2
for place = first, #ARGV, 3 do ids[#ids + 1], after[#after + 1] = ARGV[place], ARGV[place + 2] end
for place, row in ipairs(call('HMGET', history.rows, unpack(ids))) do
  if (row or '') ~= ARGV[first + 3 * place - 2] then return refuse('AGAIN') end
end
if call('HEXISTS', beside_registry(REGISTRY, KIND_ERASING), member) == 1 then return refuse('GONE') end

-- Everything that can refuse the correction comes before the first write.

local barrier, expired, erasure = tonumber(head[5]), {}, nil
if added then
  if call('EXISTS', history.id_prefix .. ids[1]) == 1 then return refuse('AGAIN') end
  if head[6] then
    load_hides()
    if call('HEXISTS', history.rows, stub_name(head[6], ids[1])) == 1 then return refuse('REUSED') end
    erasure = load_erasures(REGISTRY, head[6], {member})[1]
    if erasure and time_of_tie_key(layout, added[2]) <= erasure.instant then
      return refuse('ERASED', number_text(erasure.instant))
    end
  end
end
-- The names of the closed periods that get another entry.
local corrected = {}
load_sums()

-- Sets what the member has in a standing; returns whether the score is within the bound.
local function set_entry(standing, score, time, data)
  if score and math.abs(score) > args.score_max then return false end
  set(standing, 1, score or false, score and time or nil, data)
  return true
end

-- Whether a period that ends at this instant (ms, 0: never) is closed.
local function has_closed(ends)
  return barrier and ends > 0 and ends <= barrier
end

for _, turnout in ipairs(args.turnouts) do
  if has_closed(turnout[4]) then turnout[3] = turnout[5] end
end

local function has_changed(standing)
  return standing.score[1] ~= standing.old_score[1] or standing.time[1] ~= standing.old_time[1]
    or standing.data and standing.data[1] ~= standing.old_data[1]
end

for place, of_standing in ipairs(args.standings) do
  local key, expires, ends, name, is_unkept, _, expires_closed = unpack(of_standing)
  local is_closed = has_closed(ends)
  if is_closed then expires = expires_closed end
  if is_closed and args.is_moving then return refuse('CLOSED') end
  if expires > 0 and expires <= args.now then
    expired[#expired + 1] = place
  else
    local standing, entry = standing_at(standings, key), end_fold(args.update, folds[place]) or {}
    standing.expires = expires
    load(standing, {1})
    if added and is_unkept then
      look_for_folded(standing, {1})
      note_folded(standing, 1)
    end
    if not set_entry(standing, entry.score, entry.time, entry.data) then return refuse('OUT_OF_RANGE') end
    if is_closed and name ~= '' and has_changed(standing) then corrected[#corrected + 1] = name end
  end
end

-- The member's sum over the periods of an entry, with the time and the data of the newest in which it has more than zeros.
local function sum_of_periods(sum, entry)
  local total, is_listed, time, data = begin_fold(nil), false, nil, nil
  for _, period in ipairs(sum.periods) do
    if period[1] >= entry.oldest and period[1] <= entry.start then
      local standing = standing_at(standings, period[2])
      load(standing, {1})
      if standing.score[1] then
        is_listed = true
        add_score(total, standing.score[1])
        if not time or time < 0 then time, data = standing.time[1], standing.data and standing.data[1] end
      end
    end
  end
  return is_listed and score_of(total), time, data
end

-- The member's initial score in the period of an entry; false for none.
local function initial_score(entry)
  local own = standing_at(standings, args.initial)
  load(own, {1})
  local ends = math.min(entry.ends or args.closes, args.closes)
  if not barrier or ends > barrier then return own.score[1] end
  return scores_in_past(REGISTRY, ends, {member}, {own.score[1]})[1]
end

-- Makes the member's score in a derived standing again. Returns whether it is within the bound.
local function follow(sum, entry)
  local standing = entry.standing
  load(standing, {1})
  local score, time, data = sum_of_periods(sum, entry)
  if sum.has_initial then
    local initial = initial_score(entry)
    if score or initial then score = (score or 0) + (initial or 0) end
    time, data = with_initial(entry.floor, initial, time, data)
  elseif score == 0 then
    score = false
  end
  return set_entry(standing, score, time, data)
end

for _, sum in ipairs(args.sums) do
  for _, entry in ipairs(entries_of_series(standings, sum.state)) do
    local is_reached = false
    for _, start in ipairs(sum.starts) do is_reached = is_reached or reaches({start = start}, entry) end
    if is_reached and not follow(sum, entry) then return refuse('OUT_OF_RANGE') end
  end
end

if head[4] then
  load_hides()
  open_hides(head[4], REGISTRY)
end
if head[3] then start_capture(head[3]) end
local trail
if head[8] then
  load_trail()
  trail = open_trail(HEAD, REGISTRY, head[8])
end
if erasure then return_hide(HEAD, REGISTRY, erasure, member, args.now) end
load_periods()
-- The turnouts that an added event counts in, and their indexes.
local turnouts, all_turnouts = nil, {}
for place = 1, #args.turnouts do all_turnouts[place] = place end
if added and #all_turnouts > 0 then
  local of = {periods = args.turnouts, tag = args.tag, voters = {added[3]}, by_member = args.by_member}
  turnouts = open_turnouts(REGISTRY, of, {member})
  turnouts.look_at({1}, function() return all_turnouts end)
end
for _, standing in pairs(standings.opened) do
  local is_new = flush_last(standing, REGISTRY)
  -- The keys of derived standings were registered when they were begun.
  if is_new and standing.expires then
    for _, key in ipairs(keys_of(standing)) do keep_until(REGISTRY, key, standing.expires, args.now) end
    note_period(REGISTRY, standing.zset)
  end
  store_folded(history, standing.zset, standing.folded or {}, standing.expires, args.now)
end

-- Adds the row of an event that is accepted now.
local function add_event()
  local flags = STATUS_ALONE + (erasure and WITH_ERASURE or 0)
  local record = make_record(added[1], added[2], flags)
  if erasure then record = record .. struct.pack(ERASURE_FORM, erasure.number) end
  local accepted = accepted_after(tonumber(head[7] or 0), args.now)
  add_row(history, ids[1], make_row(0, accepted, args.revocation, record, after[1]))
  if turnouts then
    turnouts.count(all_turnouts, 1, added[3])
    turnouts.flush(args.now)
  end
  call('HSET', HEAD, 'used', args.version)
end

if added then
  add_event()
else
  for place, id in ipairs(ids) do
    call('HSET', history.rows, id, after[place])
    capture(KIND_EVENTS, history.rows, id)
  end
end
-- Notes the closed periods that were changed.
local function note_corrected()
  local is_hidden = call('HEXISTS', beside_registry(REGISTRY, KIND_HIDES), member) == 1
  local line = is_hidden and tonumber(call('ZSCORE', beside_registry(REGISTRY, KIND_HIDE_JOURNAL), member)) or 0
  local key, own = beside_registry(REGISTRY, KIND_CORRECTED), call('HINCRBY', HEAD, 'corrected', 1)
  for _, name in ipairs(corrected) do
    local before = tonumber(string.match(call('HGET', key, name) or '', '%d+$') or line)
    local both = before > 0 and line > 0 and math.max(before, line) or 0
    call('HSET', key, name, number_text(own) .. ' ' .. number_text(both))
  end
  call('SADD', REGISTRY, key)
end

if #corrected > 0 then note_corrected() end
for _, turnout in ipairs(args.turnouts) do
  local key, expires, counted = KEYS[turnout[1]], turnout[3], turnout[6]
  if counted ~= 0 and (expires == 0 or expires > args.now) then
    note_change()
    -- Shards have shares of the count, one of which may be negative.
    local is_new = call('EXISTS', key) == 0
    call('HINCRBY', key, args.tag, counted)
    if is_new then keep_until(REGISTRY, key, expires, args.now) end
    capture(KIND_TURNOUT, key)
  end
end
end_watch(history)
if trail then leave_trail(trail) end
return {'OK', unpack(expired)}
