-- apply.lua: carries out the plans of many events of one board, each whole or not at all.
--
-- Runs in one slot. The events of a call are carried out in their order; one that is refused changes
-- nothing, and the others go on. Everything of an event, and the memory of its id, happens in this call.
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
--                route, rejected (0 | 1), ranks (0 | 1), carried amounts…}
--
-- Reply: {'STALE'}, or {'OK', MessagePack of a list with one item an event}:
--   {1, at, entries…}   applied       entries: code, score, previous (false: was not listed, true: score
--   {2, at, entries…}   unchanged              minus amount, or a number), and with ranks two more: rank,
--   {3, at, status, ranks, entries…}  duplicate   previous rank (false: not listed)
--   {4}                 the id was used with another content
--   {5}                 rejected as the caller said, and its id is not known
--   {6, code}           a score of this window would pass the bound
--   {7}                 a rolling standing is not there, and no history was sent: nothing done, send it
--   {8, code}           ranks were asked for in a rolling standing that is not there: nothing done, complete it
--
-- Example: one event of 5 points for `ann` on a board with the window `day` (code 1024), ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:day:2026-11-21  st:{b}:1:e:x1
--   ARGV  {version='1-1', …, rolls={}, routes={{writes={{3, 0, 1024, 1, 0}}, rolls={}}},
--          events={{'ann', 4, -5, 4001000000000, 77, 1, 0, 0}}}
--   reply {'OK', {{1, 4001000000000, 1024, -5, false}}}

local APPLIED, UNCHANGED, DUPLICATE, REUSED, REJECTED, OUT_OF_RANGE, NO_HISTORY, NO_STANDING = 1, 2, 3, 4, 5, 6, 7, 8
local SCORE_MAX = 9007199254740991

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR apply.lua: 2 keys or more, 1 argument') end
local BOARD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking, update, now = args.layout, args.ranking, args.update, args.now

local board = call('HMGET', BOARD, 'version', 'used')
if board[1] ~= args.version then return {'STALE'} end
local is_used = board[2]

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

local function register(standing, expires)
  for _, key in pairs(standing) do
    if key then
      call('SADD', REGISTRY, key)
      if expires > 0 then call('PEXPIRE', key, expires - now) end
    end
  end
end

local standings = {}
local function standing_of(first)
  local standing = standings[first]
  if not standing then
    standing = standing_at(layout, first)
    standings[first] = standing
  end
  return standing
end

-- Sorts a rolling window's standings by what an event of this period means to them:
-- `grow` are complete and take the amount, `stale` are being built and take a note, `own` ends with the period.
local states = {}
local function resolve(roll)
  if roll.grow then return end
  roll.grow, roll.stale = {}, {}
  states[roll.state] = states[roll.state] or rolling_entries(KEYS[roll.state])
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

-- The time of a member in a rolling standing in which it is not listed: of its newest period there.
local function newest_time(roll, entry, id, base_time)
  if not layout.hashed then return nil end
  for _, after in ipairs(roll.later) do
    if after[1] <= entry.start then
      local _, time = read(layout, standing_of(after[2]), id)
      if time then return time end
    end
  end
  return base_time
end

local function rank_before(standing, id, score, time)
  return score and rank_of(layout, ranking, standing, id, score, time) or false
end

local function carry_out(event)
  local id, id_key, amount, at, fingerprint = event[1], event[2], event[3], event[4], event[5]
  local route, with_ranks = args.routes[event[6]], event[8] == 1

  if id_key > 0 then
    local remembered = call('GET', KEYS[id_key])
    if remembered then
      local record = cmsgpack.unpack(remembered)
      if record[1] ~= fingerprint then return {REUSED} end
      record[1] = DUPLICATE
      return record
    end
  end
  if event[7] == 1 then return {REJECTED} end

  -- Everything is computed and checked before the first write: Redis rolls nothing back.
  local changes, outcome, bases = {}, {}, {}
  local function plan_change(standing, score, time, old_score, old_time, expires)
    if score ~= old_score or time ~= old_time then
      table.insert(changes, {
        standing = standing, score = score, time = time, old_score = old_score, old_time = old_time, expires = expires
      })
    end
  end
  local function report(code, score, old_score, standing, time, old_time)
    local previous = old_score or false
    if old_score and update == 'sum' then previous = true end
    table.insert(outcome, {
      code = code, score = score, previous = previous, standing = standing, time = time,
      rank_before = with_ranks and rank_before(standing, id, old_score, old_time)
    })
  end

  for _, planned in ipairs(route.writes) do
    local slot, which, code, reported, expires = planned[1], planned[2], planned[3], planned[4], planned[5]
    if expires == 0 or expires > now then
      local standing = standing_of(slot)
      local added = which == 0 and amount or event[8 + which]
      local old_score, old_time = read(layout, standing, id)
      local score, time = added, layout.hashed and at or nil
      if old_score then score, time = merge(old_score, old_time, added, at) end
      if math.abs(score) > SCORE_MAX then return {OUT_OF_RANGE, code} end
      plan_change(standing, score, time, old_score, old_time, expires)
      bases[slot] = {score = score, time = time, old_score = old_score}
      if reported == 1 then report(code, score, old_score, standing, time, old_time) end
    end
  end

  local notes = {}
  for _, place in ipairs(route.rolls) do
    local roll = args.rolls[place]
    local base = bases[roll.base]
    if base then
      resolve(roll)
      for _, entry in ipairs(roll.grow) do
        local old_score, old_time = read(layout, entry, id)
        local score = (old_score or 0) + amount
        if math.abs(score) > SCORE_MAX then return {OUT_OF_RANGE, roll.code} end
        local time
        if old_score then
          time = latest(layout, old_time, layout.hashed and at or nil)
        else
          time = newest_time(roll, entry, id, base.time)
        end
        plan_change(entry, score, time, old_score, old_time, 0)
        if entry == roll.own then report(roll.code, score, old_score, entry, time, old_time) end
      end
      for _, entry in ipairs(roll.stale) do table.insert(notes, entry.todo) end
      if not roll.own and (roll.expires == 0 or roll.expires > now) then
        if with_ranks then return {NO_STANDING, roll.code} end
        if #roll.history == 0 then return {NO_HISTORY} end
        local score = amount
        for _, slot in ipairs(roll.history) do
          score = score + (read(layout, standing_of(slot), id) or 0)
        end
        if math.abs(score) > SCORE_MAX then return {OUT_OF_RANGE, roll.code} end
        report(roll.code, score, score ~= amount and score - amount or nil)
      end
    end
  end

  for _, change in ipairs(changes) do
    local standing = change.standing
    if change.score == 0 and standing.todo then
      -- A rolling standing doesn't list a sum of zero.
      if change.old_score then remove(layout, standing, id, change.old_score, change.old_time) end
    elseif write(layout, standing, id, change.score, change.time, change.old_score, change.old_time)
      and not standing.todo then
      register(standing, change.expires)
    end
  end
  for _, todo in ipairs(notes) do call('SADD', todo, id) end
  if not is_used then
    call('HSET', BOARD, 'used', 1)
    is_used = true
  end

  local status = (update == 'sum' or #changes > 0) and APPLIED or UNCHANGED
  local result = {status, at}
  local record = {fingerprint, at, status, event[8]}
  for _, entry in ipairs(outcome) do
    local fields = {entry.code, entry.score, entry.previous}
    if with_ranks then
      local listed = entry.score ~= 0 or not entry.standing.todo
      fields[4] = listed and rank_of(layout, ranking, entry.standing, id, entry.score, entry.time) or false
      fields[5] = entry.rank_before
    end
    for _, field in ipairs(fields) do
      table.insert(result, field)
      table.insert(record, field)
    end
  end
  if id_key > 0 then
    call('SET', KEYS[id_key], cmsgpack.pack(record), 'PX', args.remember)
  end
  return result
end

local results = {}
for index, event in ipairs(args.events) do results[index] = carry_out(event) end
return {'OK', cmsgpack.pack(results)}
