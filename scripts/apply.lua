-- apply.lua: carries out the plans of many events of one board, each whole or not at all.
--
-- Runs in one slot. The events of a call are carried out in their order, each on what those before it have
-- left; one that is refused changes nothing, and the others go on. Everything of an event, and the memory of
-- its id, happens in this call. All reading and checking comes before the first write.
--
-- KEYS[1]  board      hash: `version`, `used` (src/store/keys.rs has the form of every key)
-- KEYS[2]  registry   set: names of the keys that the board's data lies in
-- KEYS[3…] in any order, named by their index in ARGV[1]: standings (`layout.width` keys each), states of
--          rolling windows (string, see lib/rolling.lua), remembered event ids (string)
--
-- ARGV[1]  MessagePack of a map:
--   version     text; what KEYS[1] must hold, or else the reply is STALE
--   now         ms since the epoch
--   layout      see lib/standing.lua
--   ranking     'ordinal' | 'competition' | 'dense'
--   update      'sum' | 'greatest' | 'least' | 'last_greatest' | 'last_least', of stored scores
--   remember    ms for which an event id is remembered
--   rolls       list of {state, code, start (ms: the event's period), base (standing), expires,
--                later = {{start, standing}, …} newest first,
--                history = {standing, …} newest first, empty where it was not sent}
--   routes      list of {writes = list of write, rolls = list of places in `rolls`}
--     write     {standing, amount (0: the score, n: the n-th carried amount), code of the window,
--                reported (0 | 1), expires (ms since the epoch, 0: never)}
--   events      list of {member, id (key index, 0: none), amount (stored score), at (tie key), fingerprint,
--                route, rejected (0 | 1), detail (0: status alone, 1: standings, 2: with ranks),
--                carried amounts…}
--
-- Reply: {'STALE'}, or {'OK', MessagePack of a list with one item an event}:
--   {1, at, entries…}   applied       entries (from detail 1 on): code, score, previous (false: was not
--   {2, at, entries…}   unchanged              listed, true: score minus amount, or a number), and with
--                                              detail 2 also: rank, previous rank (false: not listed)
--   {3, at, status, detail, entries…}  duplicate
--   {4}                 the id was used with another content
--   {5}                 rejected as the caller said, and its id is not known
--   {6, code}           a score of this window would pass the bound
--   {7}                 a rolling standing is not there, and no history was sent: nothing done, send it
--   {8, code}           ranks were asked for in a rolling standing that is not there: nothing done, complete it
--
-- Example: one event of 5 points for `ann` on a board with the window `day` (code 1024), ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:day:2026-11-21  st:{b}:1:e:x1
--   ARGV  {version='1-1', …, rolls={}, routes={{writes={{3, 0, 1024, 1, 0}}, rolls={}}},
--          events={{'ann', 4, -5, 4001000000000, 77, 1, 0, 1}}}
--   reply {'OK', {{1, 4001000000000, 1024, -5, false}}}

local APPLIED, UNCHANGED, DUPLICATE, REUSED, REJECTED, OUT_OF_RANGE, NO_HISTORY, NO_STANDING = 1, 2, 3, 4, 5, 6, 7, 8
local STATUS_ALONE, WITH_RANKS = 0, 2
local SCORE_MAX = 9007199254740991

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR apply.lua: 2 keys or more, 1 argument') end
local BOARD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking, update, now = args.layout, args.ranking, args.update, args.now

local board = call('HMGET', BOARD, 'version', 'used')
if board[1] ~= args.version then return {'STALE'} end

local standings = {}
local function standing_of(first)
  local standing = standings[first]
  if not standing then
    standing = standing_at(layout, first)
    standings[first] = standing
  end
  return standing
end

local function is_kept(expires)
  return expires == 0 or expires > now
end

-- Sorts a rolling window's standings by what an event of this period means to them:
-- `grow` are complete and take the amount, `stale` are being built and take a note, `own` ends with the period.
local states = {}
local function resolve(roll)
  roll.grow, roll.stale = {}, {}
  if not states[roll.state] then
    states[roll.state] = rolling_entries(KEYS[roll.state])
    for _, entry in ipairs(states[roll.state]) do
      entry.standing = open_standing(entry.zset, entry.hash, entry.dense)
      entry.notes = {}
    end
  end
  for _, entry in ipairs(states[roll.state]) do
    if entry.done then
      if roll.start >= entry.oldest and roll.start <= entry.start then
        table.insert(roll.grow, entry)
        if entry.start == roll.start then roll.own = entry end
      end
    elseif roll.start >= entry.depends and roll.start <= entry.start then
      table.insert(roll.stale, entry)
    end
  end
end

-- Adds up what members have in the periods of a rolling standing that is not there, as it is stored.
local function add_up_history(roll, ids)
  local sums = roll.sums or {}
  roll.sums = sums
  for _, id in ipairs(ids) do sums[id] = 0 end
  for _, slot in ipairs(roll.history) do
    if layout.hashed then
      for index, packed in ipairs(call('HMGET', KEYS[slot + 1], unpack(ids))) do
        if packed then sums[ids[index]] = sums[ids[index]] + struct.unpack('>d', packed, 7) end
      end
    else
      for index, score in ipairs(call('ZMSCORE', KEYS[slot], unpack(ids))) do
        if score then sums[ids[index]] = sums[ids[index]] + tonumber(score) end
      end
    end
  end
end

-- What members have got in this call, by the standing of a period that rolling windows add up.
local added_in_call = {}

-- The sum of a member in a rolling standing that is not there.
local function sum_of_history(roll, id)
  local sum = roll.sums[id]
  for _, slot in ipairs(roll.history) do
    local added = added_in_call[slot]
    if added and added[id] then sum = sum + added[id] end
  end
  return sum
end

-- Loads all that the events are going to read, but for what few of them need.
local function load_ahead()
  local ids_of, is_named, remembered_keys = {}, {}, {}
  for _, event in ipairs(args.events) do
    local id, place = event[1], event[6]
    if not ids_of[place] then ids_of[place], is_named[place] = {}, {} end
    if not is_named[place][id] then
      is_named[place][id] = true
      table.insert(ids_of[place], id)
    end
    if event[2] > 0 then remembered_keys[#remembered_keys + 1] = KEYS[event[2]] end
  end
  for place, ids in pairs(ids_of) do
    local route = args.routes[place]
    for _, write in ipairs(route.writes) do
      if is_kept(write[5]) then load(layout, standing_of(write[1]), ids) end
    end
    for _, roll_place in ipairs(route.rolls) do
      local roll = args.rolls[roll_place]
      if not roll.grow then resolve(roll) end
      for _, entry in ipairs(roll.grow) do load(layout, entry.standing, ids) end
      if not roll.own then add_up_history(roll, ids) end
    end
  end
  local remembered = {}
  if #remembered_keys > 0 then
    for index, record in ipairs(call('MGET', unpack(remembered_keys))) do
      if record then remembered[remembered_keys[index]] = cmsgpack.unpack(record) end
    end
  end
  return remembered
end

-- What an amount makes of a listed score: the new score and time.
local function merge(score, time, amount, at)
  if update == 'sum' then
    return score + amount, latest(layout, time, at)
  end
  local better
  if update == 'greatest' or update == 'last_greatest' then
    better = amount > score
  else
    better = amount < score
  end
  if update == 'greatest' or update == 'least' then
    if better then return amount, at end
    -- The time of a kept value is the first at which it was reached.
    if amount == score and time and is_later(layout, time, at) then return score, at end
  elseif is_later(layout, at, time) or (at == time and better) then
    return amount, at
  end
  return score, time
end

-- The time of a member in a rolling standing in which it is not listed: of its newest period there.
local function newest_time(roll, entry, id, base_time)
  for _, after in ipairs(roll.later) do
    if after[1] <= entry.start then
      local _, time = get(layout, standing_of(after[2]), id)
      if time then return time end
    end
  end
  return base_time
end

local function flush_all()
  for slot, standing in pairs(standings) do
    if flush(layout, standing) then
      for _, key in ipairs({standing.zset, standing.hash, standing.dense}) do
        if key then
          call('SADD', REGISTRY, key)
          if standing.expires > 0 then call('PEXPIRE', key, standing.expires - now) end
        end
      end
    end
  end
  for _, entries in pairs(states) do
    for _, entry in ipairs(entries) do flush(layout, entry.standing) end
  end
end

-- Carries out one event in memory. `remembered`: event ids' records by key.
local function carry_out(event, remembered)
  local id, id_key, amount, at, fingerprint, detail =
    event[1], KEYS[event[2]], event[3], layout.hashed and event[4] or nil, event[5], event[8]
  local route = args.routes[event[6]]

  local record = id_key and remembered[id_key]
  if record then
    if record[1] ~= fingerprint then return {REUSED} end
    return {DUPLICATE, unpack(record, 2)}
  end
  if event[7] == 1 then return {REJECTED} end

  -- Everything is computed and checked before anything is changed.
  local changes, reports, bases, notes = {}, {}, {}, {}
  local function plan_change(standing, score, time, old_score, old_time)
    if score ~= old_score or time ~= old_time then
      changes[#changes + 1] = {standing, score, time}
    end
  end
  local function report(code, score, old_score, standing, listed_time, old_time)
    if detail == STATUS_ALONE then return end
    local previous = old_score or false
    if old_score and update == 'sum' then previous = true end
    reports[#reports + 1] = {
      code = code, score = score, previous = previous, standing = standing, time = listed_time,
      old_score = old_score, old_time = old_time
    }
  end

  for _, write in ipairs(route.writes) do
    local slot, which, code, expires = write[1], write[2], write[3], write[5]
    if is_kept(expires) then
      local standing = standing_of(slot)
      standing.expires = expires
      local added = which == 0 and amount or event[8 + which]
      local old_score, old_time = get(layout, standing, id)
      local score, time = added, at
      if old_score then score, time = merge(old_score, old_time, added, at) end
      if math.abs(score) > SCORE_MAX then return {OUT_OF_RANGE, code} end
      plan_change(standing, score, time, old_score, old_time)
      bases[slot] = {time = time}
      if write[4] == 1 then report(code, score, old_score, standing, time, old_time) end
    end
  end

  for _, place in ipairs(route.rolls) do
    local roll = args.rolls[place]
    local base = bases[roll.base]
    if base then
      for _, entry in ipairs(roll.grow) do
        local old_score, old_time = get(layout, entry.standing, id)
        local score = (old_score or 0) + amount
        if math.abs(score) > SCORE_MAX then return {OUT_OF_RANGE, roll.code} end
        local time
        if old_score then
          time = latest(layout, old_time, at)
        elseif layout.hashed then
          time = newest_time(roll, entry, id, base.time)
        end
        -- A rolling standing doesn't list a sum of zero.
        local listed = score ~= 0 and score or nil
        plan_change(entry.standing, listed, listed and time, old_score, old_time)
        if entry == roll.own then report(roll.code, score, old_score, entry.standing, listed and time, old_time) end
      end
      for _, entry in ipairs(roll.stale) do notes[#notes + 1] = entry end
      if not roll.own and is_kept(roll.expires) and detail ~= STATUS_ALONE then
        if detail == WITH_RANKS then return {NO_STANDING, roll.code} end
        if #roll.history == 0 then return {NO_HISTORY} end
        local old_score = sum_of_history(roll, id)
        if math.abs(old_score + amount) > SCORE_MAX then return {OUT_OF_RANGE, roll.code} end
        report(roll.code, old_score + amount, old_score ~= 0 and old_score or nil)
      end
    end
  end

  -- Ranks are those of what is stored.
  if detail == WITH_RANKS then
    flush_all()
    for _, one in ipairs(reports) do
      one.rank_before = one.old_score ~= nil
        and rank_of(layout, ranking, one.standing, id, one.old_score, one.old_time)
    end
  end
  for _, change in ipairs(changes) do set(change[1], id, change[2], change[3]) end
  for slot in pairs(bases) do
    local added = added_in_call[slot] or {}
    added_in_call[slot] = added
    added[id] = (added[id] or 0) + amount
  end
  for _, entry in ipairs(notes) do entry.notes[#entry.notes + 1] = id end
  if detail == WITH_RANKS then flush_all() end

  local status = (update == 'sum' or #changes > 0) and APPLIED or UNCHANGED
  local result = {status, event[4]}
  record = {fingerprint, event[4], status, detail}
  for _, one in ipairs(reports) do
    local fields = {one.code, one.score, one.previous}
    if detail == WITH_RANKS then
      local is_listed = get(layout, one.standing, id) ~= nil
      fields[4] = is_listed and rank_of(layout, ranking, one.standing, id, one.score, one.time) or false
      fields[5] = one.rank_before
    end
    for _, field in ipairs(fields) do
      result[#result + 1] = field
      record[#record + 1] = field
    end
  end
  if id_key then
    remembered[id_key] = record
    remembered.new[#remembered.new + 1] = id_key
  end
  return result
end

local remembered = load_ahead()
remembered.new = {}
local results, is_used = {}, board[2]
for index, event in ipairs(args.events) do
  results[index] = carry_out(event, remembered)
  is_used = is_used or results[index][1] <= UNCHANGED
end

flush_all()
for _, entries in pairs(states) do
  for _, entry in ipairs(entries) do
    if #entry.notes > 0 then call('SADD', entry.todo, unpack(entry.notes)) end
  end
end
for _, id_key in ipairs(remembered.new) do
  call('SET', id_key, cmsgpack.pack(remembered[id_key]), 'PX', args.remember)
end
if is_used and not board[2] then call('HSET', BOARD, 'used', 1) end
return {'OK', cmsgpack.pack(results)}
