-- apply.lua: carries out the plans of many events of one board, each whole or not at all.
--
-- Runs in one slot. The events of a call are carried out in their order, each on what those before it have
-- left; one that is refused changes nothing, and the others go on. Everything of an event, and the memory of
-- its id, happens in this call. All reading and checking comes before the first write. Keys that it touches beside KEYS:
-- those that the states name, and the voters of members.
--
-- KEYS[1]  board      hash: `version`, `used`, `moving` (src/store/keys.rs has the form of every key)
-- KEYS[2]  registry   set: names of the keys that the board's data lies in
-- KEYS[3…] in any order, named by their index in ARGV[1]: standings (`layout.width` keys each), states of
--          derived series (string, see lib/derived.lua), turnouts (hash, HyperLogLog), remembered event ids (string)
--
-- ARGV[1]  MessagePack of a map:
--   version     text; what KEYS[1] must hold, or else the reply is STALE
--   now         ms since the epoch
--   layout      see lib/standing.lua
--   ranking     'ordinal' | 'competition' | 'dense'
--   update      'sum' | 'greatest' | 'least' | 'last_greatest' | 'last_least', of stored scores
--   remember    text; ms for which an event id is remembered
--   confirm     true: it is waited for replicas after this call: what a duplicate tells is written again, so that they
--               have it too, wherever it was written first
--   sums        list of {state, code, reported (0 | 1), column, start (ms: the event's period), base (standing), expires,
--                lists_zero: whether it has initial scores,
--                later = {{start, standing}, …} newest first,
--                history = {standing, …}, what it is the sum of, empty where it was not sent}
--   turnouts    list of {events, voters (keys), expires}: where the events of a period, and who has sent them, are counted
--   tag         of the shard: under which it counts events
--   routes      list of {writes = list of write, sums = list of places in `sums`, turnouts = list of places in
--                `turnouts`, members = list of numbers}
--     write     {standing, column in `amounts`, code of the window, reported (0 | 1),
--                expires (ms since the epoch, 0: never)}
--   names       ids of the members
-- and the events, in columns:
--   members     numbers of members
--   ids         key index of the event's id, 0: none
--   amounts     list of columns of stored scores: the event's own, and what it carries over
--   ats         tie keys
--   fingerprints
--   on_routes   places in `routes`
--   details     0: status alone, 1: standings, 2: with ranks, 3: the event is refused, unless its id is known,
--               4: the same, unless a score would pass the bound too
-- and, where voters are counted:
--   voters      ids, empty for none
--   by_member   whether they are also counted for each member
-- and, where the board has quotas, `quotas`:
--   rules       see lib/quota.lua
--   instants    of the events, ms since the epoch
--   uses        of the events, for each a list; see lib/quota.lua
--   asks        whether it is asked what is left of them: for each event
--   registry    key index of the set with the names of counts that don't expire
-- and, where the counts of quotas lie in other slots (see reserve.lua):
--   tokens      of the events' reservations, eleven bytes each, empty for none
--   fences      key indexes of what makes an event void (see fence.lua), 0: none
--
-- Reply: {'STALE'}, or {'OK', one for each event}:
--   record      taken: what is remembered of it
--   {8, record, left…}   the same, with what is left of each quota, as text
--   {1, record} duplicate: what was remembered
--   {2}         the id was used with another content
--   {3}         refused as the caller said, and its id is not known
--   {4, code}   a score of this window would pass the bound
--   {5}         a standing that is a sum is not there, and no history was sent: nothing done, send it
--   {7, quota, ms}   this quota is used up; when a sliding window would take the event, text, 0: not told
--   {9}         the event's reservation is void: nothing done, reserve again
--   {6, code}   ranks were asked for in a standing that is a sum and is not there: nothing done, complete it
-- A record is, big-endian: fingerprint (7 bytes), tie key (6), detail + status (applied: 0, unchanged: 4) + (scores
-- of seven bytes: 8, of four: 0) + (with a token: 16) (1); for each standing that it reports, code + (listed before: 4096) (2), score
-- (4 or 7), and for updates other than `sum` the score before (4 or 7); then, for detail 2, for each of them rank
-- and rank before, 0: not listed (4 each); and the token of the event's reservation, if it had one (11).
--
-- Example: one event of 5 points for `ann` on a board with the window `day` (code 1024), ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:s:day:2026-11-21  st:{b}:1:e:x1
--   ARGV  {version='1-1', …, sums={}, turnouts={},
--          routes={{writes={{3, 1, 1024, 1, 0}}, sums={}, turnouts={}, members={1}}}, names={'ann'},
--          members={1}, ids={4}, amounts={{-5}}, ats={4001000000000}, fingerprints={77}, on_routes={1}, details={1}}
--   reply {'OK', record}

local DUPLICATE, REUSED, REFUSED, OUT_OF_RANGE, NO_HISTORY, NO_STANDING, NO_QUOTA = 1, 2, 3, 4, 5, 6, 7
local TAKEN, VOID = 8, 9
local APPLIED, UNCHANGED, WIDE, WITH_TOKEN = 0, 4, 8, 16
local STATUS_ALONE, WITH_RANKS, ONLY_IF_KNOWN, ONLY_IF_BEYOND = 0, 2, 3, 4
local LISTED_BEFORE = 4096
local SCORE_MAX = 9007199254740991

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR apply.lua: 2 keys or more, 1 argument') end
local BOARD, REGISTRY = KEYS[1], KEYS[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking, update, now = args.layout, args.ranking, args.update, args.now
local quotas, is_sum = args.quotas, update == 'sum'
-- Otherwise times are kept in some layouts, but no answer depends on them.
local shows_times = layout.prefixed or update == 'last_greatest' or update == 'last_least'
names = args.names

local board = call('HMGET', BOARD, 'version', 'used', 'moving')
if board[1] ~= args.version then return {'STALE'} end
if board[3] then start_capture(board[3]) end

local standings = {}
local function standing_of(first)
  local standing = standings[first]
  if not standing then
    standing = standing_at(layout, first)
    standings[first] = standing
  end
  return standing
end

local states = {}
local function entries_of(state)
  if not states[state] then
    states[state] = derived_entries(KEYS[state])
    for _, entry in ipairs(states[state]) do
      entry.standing = open_standing(entry)
      entry.standing.kind = KIND_DERIVED
      for _, term in ipairs(entry.terms or {}) do term.standing = open_standing(term) end
    end
  end
  return states[state]
end

-- Those of these members, which are loaded, that are not listed.
local function unlisted(standing, members)
  local found = {}
  for _, m in ipairs(members) do
    if not standing.score[m] then found[#found + 1] = m end
  end
  return found
end

-- A member's sum over terms, {standing, sign}; false where it is not to be listed with it.
local function sum_of_terms(sum, terms, m)
  local score, is_listed = 0, false
  for _, term in ipairs(terms) do
    local standing = term.standing
    if standing.score[m] == nil then load(layout, standing, {m}) end
    if standing.score[m] then
      score, is_listed = score + term.sign * standing.score[m], true
    end
  end
  return (score ~= 0 or (is_listed and sum.lists_zero)) and score
end

-- Whether an event of a sum's period can change what a standing holds, or what it is being built from.
local function concerns(sum, entry)
  return sum.start >= (entry.depends or entry.oldest) and sum.start <= entry.start
end

-- Loads all that the events of a route read, and sorts it by what is to be done with it:
--   targets   standings that take an amount
--   absent    sums whose standing that ends with the event's period is not there
--   unranked  code of one that is to be reported, or whose standing isn't complete, so that it has no ranks
local function open_route(route)
  local targets, place_of = {}, {}
  route.targets, route.absent = targets, {}
  local function add_target(target)
    targets[#targets + 1] = target
    load(layout, target.standing, route.members)
    if target.entry and not target.entry.done then
      local missing = unlisted(target.standing, route.members)
      for _, term in ipairs(target.entry.terms) do load(layout, term.standing, missing) end
    end
  end
  for _, write in ipairs(route.writes) do
    local slot, column, code, reported, expires = unpack(write)
    if expires == 0 or expires > now then
      local standing = standing_of(slot)
      standing.expires = expires
      add_target({standing = standing, amounts = args.amounts[column], code = code, is_reported = reported == 1})
      place_of[slot] = #targets
    end
  end
  for _, place in ipairs(route.sums) do
    local sum = args.sums[place]
    local base, has_own, is_reported = place_of[sum.base], false, sum.reported == 1
    for _, entry in ipairs(base and entries_of(sum.state) or {}) do
      if concerns(sum, entry) then
        local is_own = entry.start == sum.start
        has_own = has_own or is_own
        add_target({
          standing = entry.standing, amounts = args.amounts[sum.column], code = sum.code,
          is_reported = is_reported and is_own, sum = sum, entry = entry, base = base,
        })
        if is_reported and is_own and not entry.done then route.unranked = sum.code end
      end
    end
    if base and not has_own and (sum.expires == 0 or sum.expires > now) then
      table.insert(route.absent, sum)
      if is_reported then route.unranked = sum.code end
      sum.terms = {}
      for place, slot in ipairs(sum.history) do
        sum.terms[place] = {standing = standing_of(slot), sign = 1}
        load(layout, standing_of(slot), route.members)
      end
    end
  end
end

-- What an amount makes of a listed score: the new score and time.
local function merge(score, time, amount, at)
  if is_sum then
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

-- The time of a member in a standing in which it is not listed: of its newest period there.
local function newest_time(target, m, base_time)
  for _, after in ipairs(target.sum.later) do
    if after[1] <= target.entry.start then
      local standing = standing_of(after[2])
      load(layout, standing, {m})
      if standing.score[m] then return standing.time[m] end
    end
  end
  return base_time
end

-- By how many ms the server's clock, by which keys expire, is ahead of `now`; the same for all keys of the call.
local ahead
local function clock_ahead()
  if not ahead then
    local time = call('TIME')
    ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
  end
  return ahead
end

-- Puts a new key into the registry, and says when it ends (ms since the epoch, 0: never).
local function keep_until(key, expires)
  call('SADD', REGISTRY, key)
  if expires > 0 then call('PEXPIREAT', key, number_text(expires + clock_ahead())) end
end

local function flush_all()
  for _, standing in pairs(opened) do
    -- The keys of derived standings were registered when they were begun.
    if flush(layout, standing) and standing.expires then
      for _, key in ipairs(keys_of(standing)) do keep_until(key, standing.expires) end
    end
  end
end

-- Event ids' records by their keys, and the keys of those that this call has taken.
local remembered, taken = {}, {}
-- Fences that are there, by their keys.
local fenced = {}

-- The values that are there under the keys of these indexes, by their keys.
local function load_values(places, values)
  local keys = {}
  for _, place in ipairs(places) do
    if place > 0 then keys[#keys + 1] = KEYS[place] end
  end
  if #keys == 0 then return end
  for index, value in ipairs(call('MGET', unpack(keys))) do
    if value then values[keys[index]] = value end
  end
end

-- What an event makes of its targets, and what its member's score is there before, false where it isn't listed:
-- lists that are used again for every event.
local new_scores, new_times, befores = {}, {}, {}

-- The fields of the record that is being made, from the fourth on, how many they are, and whether a score among
-- them needs seven bytes.
local fields, field_count, is_wide = {}, 0, false
local REPORT_FIELDS = is_sum and 2 or 3
local narrow_forms, wide_forms = {}, {}

local function needs_width(score)
  return score > 2147483647 or score < -2147483648
end

local function report(code, score, old_score)
  fields[field_count + 1] = old_score and code + LISTED_BEFORE or code
  fields[field_count + 2] = score
  is_wide = is_wide or needs_width(score)
  if not is_sum then
    fields[field_count + 3] = old_score or 0
    is_wide = is_wide or needs_width(old_score or 0)
  end
  field_count = field_count + REPORT_FIELDS
end

local function make_record(fingerprint, at, status, detail, token)
  local forms = is_wide and wide_forms or narrow_forms
  local form = forms[field_count]
  if not form then
    local score_form = is_wide and 'i7' or 'i4'
    form = '>I7I6B' .. string.rep('H' .. string.rep(score_form, REPORT_FIELDS - 1), field_count / REPORT_FIELDS)
    forms[field_count] = form
  end
  local ending = detail + status + (is_wide and WIDE or 0) + (token and WITH_TOKEN or 0)
  return struct.pack(form, fingerprint, at, ending, unpack(fields, 1, field_count))
end

-- What an event makes of a member in a derived standing: the new score, false for not listed, and time; and the
-- score before.
local function add_to_sum(target, m, amount, at, base_time)
  local standing, entry, sum = target.standing, target.entry, target.sum
  local old_score, old_time = standing.score[m], standing.time[m]
  local is_within = sum.start >= entry.oldest
  if old_score and not is_within then return old_score, old_time, old_score end
  local before = old_score
  if not before and not entry.done then before = sum_of_terms(sum, entry.terms, m) end
  local score = before or 0
  if is_within then score = score + amount end
  if sum.lists_zero then return score, base_time, before end
  if score == 0 then return false, nil, before end
  if old_score then return score, latest(layout, old_time, at), before end
  return score, layout.hashed and newest_time(target, m, base_time) or nil, before
end

-- Computes what an event makes of its targets; nothing is changed. Returns the code of a window whose bound it
-- would pass, or nil and whether anything changes.
local function compute(targets, e, m, at)
  local is_changed = false
  for place = 1, #targets do
    local target = targets[place]
    local standing, amount = target.standing, target.amounts[e]
    local old_score, old_time = standing.score[m], standing.time[m]
    local score, time
    local before = old_score
    if target.sum then
      score, time, before = add_to_sum(target, m, amount, at, new_times[target.base])
    elseif old_score then
      score, time = merge(old_score, old_time, amount, at)
    else
      score, time = amount, at
    end
    if score and (score > SCORE_MAX or score < -SCORE_MAX) then return target.code end
    new_scores[place], new_times[place], befores[place] = score, time, before
    is_changed = is_changed or score ~= old_score or (shows_times and time ~= old_time)
  end
  return nil, is_changed
end

-- The rank of a member in each target that is reported, as it is stored; 0 where it is not listed.
local function ranks_of(targets, m)
  flush_all()
  local ranks = {}
  for place, target in ipairs(targets) do
    local standing = target.standing
    local score = standing.score[m]
    ranks[place] = target.is_reported and score
      and rank_of(layout, ranking, standing, m, score, standing.time[m]) or 0
  end
  return ranks
end

-- What is counted of the events that this call takes, by place in `args.turnouts`.
local turnouts = {}

local function count_turnout(route, m, voter)
  for _, place in ipairs(route.turnouts) do
    local turnout = turnouts[place] or {events = 0, voters = {}, of_member = {}}
    turnouts[place] = turnout
    turnout.events = turnout.events + 1
    if voter ~= '' then
      table.insert(turnout.voters, voter)
      if args.by_member then
        turnout.of_member[m] = turnout.of_member[m] or {}
        table.insert(turnout.of_member[m], voter)
      end
    end
  end
end

local function flush_turnouts()
  for place, turnout in pairs(turnouts) do
    local events, voters, expires = unpack(args.turnouts[place])
    local function add_voters(kind, key, ids)
      if #ids > 0 and call('PFADD', key, unpack(ids)) == 1 then
        keep_until(key, expires)
        capture(kind, key)
      end
    end
    if expires == 0 or expires > now then
      local count = call('HINCRBY', KEYS[events], args.tag, turnout.events)
      if count == turnout.events then keep_until(KEYS[events], expires) end
      capture(KIND_TURNOUT, KEYS[events])
      add_voters(KIND_VOTERS, KEYS[voters], turnout.voters)
      for m, ids in pairs(turnout.of_member) do
        add_voters(KIND_MEMBER_VOTERS, voters_of_member(KEYS[voters], names[m]), ids)
      end
    end
  end
end

-- Whether an event has been taken.
local is_used = false

local function carry_out(e)
  local m, id_place, detail, route = args.members[e], args.ids[e], args.details[e], args.routes[args.on_routes[e]]
  local fingerprint, at = args.fingerprints[e], args.ats[e]
  local id_key = id_place > 0 and KEYS[id_place]
  local known = id_key and remembered[id_key]
  local token = args.tokens and args.tokens[e] ~= '' and args.tokens[e]
  if known then
    if struct.unpack('>I7', known) ~= fingerprint then return {REUSED} end
    if args.confirm then call('SET', id_key, known, 'KEEPTTL', 'XX') end
    -- The same call once more: it was repeated on the way.
    if token and string.sub(known, -#token) == token then return known end
    return {DUPLICATE, known}
  end
  if detail == ONLY_IF_KNOWN then return {REFUSED} end
  if token and fenced[KEYS[args.fences[e]]] then return {VOID} end

  -- Everything is computed and checked before anything is changed.
  local targets = route.targets
  local beyond, is_changed = compute(targets, e, m, layout.hashed and at or nil)
  if beyond then return {OUT_OF_RANGE, beyond} end
  if detail == WITH_RANKS and route.unranked then return {NO_STANDING, route.unranked} end
  for _, sum in ipairs(route.absent) do
    if #sum.terms == 0 then
      if sum.reported == 1 and detail ~= STATUS_ALONE then return {NO_HISTORY} end
    elseif math.abs((sum_of_terms(sum, sum.terms, m) or 0) + args.amounts[sum.column][e]) > SCORE_MAX then
      return {OUT_OF_RANGE, sum.code}
    end
  end

  if detail == ONLY_IF_BEYOND then return {REFUSED} end

  local lefts
  if quotas then
    local rules, uses, instant = quotas.rules, quotas.uses[e], quotas.instants[e]
    local pools, used_up, frees = choose_pools(rules, uses, instant, {})
    if not pools then return {NO_QUOTA, used_up, number_text(frees)} end
    if quotas.asks[e] then lefts = lefts_of(rules, uses, instant) end
    take_from(pools, instant, now)
  end

  local ranks_before = detail == WITH_RANKS and ranks_of(targets, m)
  field_count, is_wide = 0, false
  if detail ~= STATUS_ALONE then
    for _, sum in ipairs(route.absent) do
      if sum.reported == 1 then
        local before = sum_of_terms(sum, sum.terms, m)
        report(sum.code, (before or 0) + args.amounts[sum.column][e], before)
      end
    end
  end
  for place = 1, #targets do
    local target, score, time = targets[place], new_scores[place], new_times[place]
    local standing = target.standing
    if detail ~= STATUS_ALONE and target.is_reported then report(target.code, score or 0, befores[place]) end
    if score ~= standing.score[m] or time ~= standing.time[m] then set(standing, m, score, time) end
  end

  local status = (is_sum or is_changed) and APPLIED or UNCHANGED
  local record = make_record(fingerprint, at, status, detail, token)
  if ranks_before then
    local ranks, packed = ranks_of(targets, m), {record}
    for place, target in ipairs(targets) do
      if target.is_reported then packed[#packed + 1] = struct.pack('>I4I4', ranks[place], ranks_before[place]) end
    end
    record = table.concat(packed)
  end
  if token then record = record .. token end
  if args.voters then count_turnout(route, m, args.voters[e]) end
  if id_key then
    remembered[id_key] = record
    taken[#taken + 1] = id_key
  end
  is_used = true
  if lefts then return {TAKEN, record, unpack(lefts)} end
  return record
end

load_values(args.ids, remembered)
if args.tokens then load_values(args.fences, fenced) end
if quotas then load_counts(quotas.rules, quotas.uses) end
for _, route in ipairs(args.routes) do open_route(route) end
local reply = {'OK'}
for e = 1, #args.members do reply[e + 1] = carry_out(e) end

flush_all()
if quotas then flush_counts(KEYS[quotas.registry], now) end
flush_turnouts()
for _, id_key in ipairs(taken) do call('SET', id_key, remembered[id_key], 'PX', args.remember) end
if is_used and board[2] ~= args.version then call('HSET', BOARD, 'used', args.version) end
return reply
