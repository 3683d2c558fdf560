-- apply.lua: carries out the plans of many events of one board, each whole or not at all.
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/standing.lua, lib/hides.lua, lib/erasures.lua, lib/hidden.lua, lib/follow.lua, lib/return.lua, lib/ranks.lua, lib/quota.lua, lib/periods.lua, lib/queued.lua, lib/expiry.lua, lib/record.lua, lib/merge.lua, lib/sums.lua, lib/turnouts.lua, lib/history.lua, lib/trail.lua
--
-- The script runs in one slot. It carries out the events in their order, each on the state that the events before it have
-- left. An event that is refused changes nothing, and the next one goes on. In addition to KEYS the script touches the keys
-- that the states name, the voters of members, and the queue, whose keys follow from the registry's (lib/queue.lua).
--
-- What a call guarantees:
--   An event is whole. Everything that can refuse an event is checked before the event changes anything. A call that ends
--   without an error has written all events that it has taken, and their ids.
--   A call is one transaction in the append-only file and for replicas. A crash of Redis loses all of it or nothing.
--   Before its first write, a call can be refused, so that nothing has changed: if memory, the disk or replicas are
--   missing, or on a replica (because of `#!lua` Redis checks this at the start, and not again); while the slot moves
--   (`require_slot`); if a key that is read or written has the wrong type or can't be read (keys that are only written are
--   checked as well, see below); and by SCRIPT KILL, which Redis refuses after a write. Redis does not abort a call because
--   it takes long.
--   Halfway, a call can be aborted: if the user has lost the right to a command; if an invariant does not hold; and by a
--   bug in this script. Redis rolls nothing back: what the call has written stays. Ids are written last. So the ids of such
--   a call are not remembered, and an event that is sent again counts twice in the standings that have it already. The
--   caller gets an error, never an outcome. `standings check` finds keys of one standing that disagree, and derived
--   standings that differ from their terms. It does not find that one period has an event that another lacks.
--   An event that takes from the log of a quota, or reports ranks, writes before the script checks the next events. This
--   shows only if the call is aborted.
--
-- Takes: 2 keys or more, 3 arguments or more
-- KEYS[1]  board      hash: `version`, `used`, `moving`, `hides`, `erased`, `closed_until`, `changed`, `trail`, and of its queue
--                     `queue:open`, `final_until` and `queue:number` (src/redis/keys.rs has the form of every key)
-- KEYS[2]  registry   set: names of the keys that hold the board's data
-- KEYS[3…] in any order, named by their index in the arguments: standings (`layout.width` keys each), states of
--          derived series (string, see lib/derived.lua), turnouts (hash, HyperLogLog), seats of cohorts (hash), remembered
--          event ids (string)
--
-- Names in capitals are in src/redis/protocol.rs. The first two arguments are concatenated MessagePack values, since a map
-- takes Lua five times as long.
-- ARGV[1]  of the call:
--   version     text; what KEYS[1] must hold, or else the reply is STALE
--   now         ms since the epoch
--   confirm     true: the caller waits for replicas after this call. Then the script writes the record of a duplicate
--               again, so that the replicas have it too, wherever it was first written
--   remember    text; ms for which an event id is remembered
--   ranking     'ordinal' | 'competition' | 'dense'
--   update      'sum' | 'greatest' | 'least' | 'last', of stored scores
--   score_max   the greatest stored score of the board
--   layout      list, see lib/standing.lua
--   routes      list of {writes, sums = list of indexes in `sums`, turnouts = list of indexes in `turnouts.periods`,
--               seats = of a cohort: the key index of its seats (see seat.lua)}
--     writes    five numbers each: key index of a standing; column in `amounts`; code of the window; reported (0 | 1);
--               expires (ms since the epoch, 0: never)
-- ARGV[2]  of the events, in columns:
--   names       ids of the members
--   members     numbers of members
--   ids         key index of the event's id, 0: none
--   ats         tie keys
--   fingerprints
--   on_routes   indexes in `routes`
--   details     what is to be reported: STATUS_ALONE, WITH_STANDINGS, WITH_RANKS
--   refusals    when the event is refused: NEVER; UNLESS_KNOWN: unless its id is known; UNLESS_BEYOND: unless its id is
--               known or a score would pass the bound. The list ends with the last event that may be refused
--   amounts     list of columns of stored scores: the event's own, and what it carries over
-- ARGV[3]  what only some boards or events need: MessagePack of a map, most of whose fields are absent:
--   sums        list of {state, code, reported (0 | 1), column, start (ms: the event's period), base (standing), expires,
--                lists_zero: whether it has initial scores,
--                later = {{start, standing}, …} newest first,
--                history = {standing, …}, the terms that it is the sum of, empty where it was not sent}
--   data        of the events: canonical JSON, empty for none
--   follow_until   of the events, with `update` 'last': a tie key of `ties: first` up to which (exclusive) the event may
--               be moved to follow its member's entry; 0: it may not
--   recalled    of the events, in a league: whether the event's id was looked up in all shards
--   turnouts    where voters are counted:
--     periods     list of {events, voters (keys), expires}: where the events of a period and their voters are counted
--     tag         the tag of the shard, under which it counts events
--     voters      of the events: ids, empty for none
--     by_member   whether voters are also counted for each member
--   quotas      where the board has quotas:
--     rules       see lib/quota.lua
--     instants    of the events, ms since the epoch
--     uses        of the events, for each a list; see lib/quota.lua
--     asks        for each event: whether the reply has what remains of its quotas
--     registry    key index of the set with the names of counts that don't expire
--   reservations   where the counts of quotas are in other slots (see reserve.lua):
--     tokens      of the events' reservations, eleven bytes each, false for none
--     voids       key indexes of the marks that void the tokens (see void.lua), 0: none
--   history     where the board keeps events, or has kept some (lib/history.lua):
--     keeps       whether events get rows
--     unkept      key indexes of the standings in which events without rows may count
--     revocation  the last revocation, 0 for none
--   queue       if events come from the shard's queue (lib/queued.lua); its lists may be shorter than those of the events:
--     entries     of the events: their entries in the queue, empty for one that does not come from it
--     bytes       how many bytes their entries count for
--     leases      text; the number of the lease under which each is applied
--     lates       the barrier of the closing for which they are late (take.lua), ms since the epoch; 0: for none
--     revocations  the last revocation before each was queued, 0 for none
--     logged_ats  when those from the log were queued, microseconds since the epoch; 0: not from the log. A later erasure
--                 refuses them, whatever instant they count for. (Events that only wait in the queue are removed by the
--                 erasure itself: forget.lua)
--
-- ARGV[4…] of the events, if they get rows: what their rows have after the records (src/domain/history.rs)
--
-- Reply: {'STALE'}, or {'OK', one for each event, the field `changed` of the head after the call ('' for none;
--   lib/changed.lua)}:
--   record               taken: what is remembered of it
--   {TAKEN, record, remaining…}   taken, on request with what remains of each quota, as text
--   {DUPLICATE, record}  what was remembered
--   {REUSED}             an event with this id and other content was taken before
--   {REFUSED}            refused as the caller said
--   {OUT_OF_RANGE, code} a score of this window would pass the bound
--   {NO_HISTORY}         a derived standing is absent, and no history was sent: nothing done, send the history
--   {NO_STANDING, code}  ranks were asked for in a derived standing that is not complete, or in a standing whose hidden
--                        list is behind, or has to be widened (lib/hidden.lua): nothing done, complete it
--   {NO_QUOTA, quota, ms, taken, allowed, amount}   this quota has too little left: when a sliding window would take the
--                        event, 0: unknown; how much was taken, how much is allowed, and how much the event would take:
--                        texts
--   {VOID}               the event's reservation is void: nothing done, reserve again
--   {CLOSED, barrier}    refused: the event is before the barrier of the shard (close_shard.lua): ms since the epoch, text
--   {ERASED, instant}    refused: the event counts for, or was appended to the log at, an instant not after the last
--                        erasure of its member, which is at this instant: a tie key of `ties: first`, text
--   {ERASING}            data of the erased member remains: nothing done, remove it (forget.lua)
--   {ELSEWHERE}          another cohort may remember the id, since the member was recently erased and then seated again:
--                        nothing done, look it up in all shards (recall.lua)
--   {UNSEATED}           the member has no seat in the cohort: nothing done, seat it (seat.lua)
--   {GONE}               the event is not in the queue, or the lease of the queue has another number: nothing done
--   {WAITING, at, queued}   the event also waits in the queue, and counts for another instant there, or the caller has
--                        refused it: nothing done, plan it with these times. Two texts, microseconds since the epoch
--   {BEHIND, instant}    the event has to follow its member's entry, and so belongs to another period: nothing done, plan
--                        it for this instant or a later one: text, microseconds since the epoch
-- A duplicate that was taken before the last erasure of its member comes without what it reported.
-- src/redis/protocol.rs has the layout of a record.
--
-- Example: one event of 5 points for `ann` on a board with the window `day` (code 1024), ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:s:day:2026-11-21  st:{b}:1:e:x1
--   ARGV  '1-1', …, {{{3, 1, 1024, 1, 0}, {}, {}}}
--         {'ann'}, {1}, {4}, {4004294400000001}, {77}, {1}, {1}, {}, {{-5}}
--         {}
--   reply {'OK', record, '1 4f0c2a9be41d'}

local BOARD, REGISTRY, keys = KEYS[1], KEYS[2], KEYS
require_slot(BOARD)
local version, now, confirm, remember_ms, ranking, update, score_max, layout, routes = cmsgpack.unpack(ARGV[1])
local board = call('HMGET', BOARD, 'version', 'used', 'moving', 'hides', 'erased', 'closed_until', 'changed', 'queue:open', 'trail')
if board[1] ~= version then return {'STALE'} end
local names, members, ids, ats, fingerprints, on_routes, details, refusals, amounts = cmsgpack.unpack(ARGV[2])
invariant(#ids == #members and #details == #members, 'the columns are of one length')
local more = cmsgpack.unpack(ARGV[3])
local event_data, follow_until, quotas, reservations = more.data, more.follow_until, more.quotas, more.reservations
local tokens, voters = reservations and reservations.tokens, more.turnouts and more.turnouts.voters
layout = named_layout(layout)
local is_sum = update == 'sum'
-- If `is_sum` is false some layouts still keep times, but no answer depends on them.
local shows_times = layout.prefixed or update == 'last'
changed_before = board[7]

-- The tie key of `ties: first` of an instant, ms since the epoch.
local function tie_key_of_ms(ms)
  return ms * 1000 + TIE_KEY_OF_EPOCH
end

-- A tie key in the order of time.
local function in_time(tie_key)
  return layout.later > 0 and tie_key or TIE_KEY_MAX - tie_key
end

-- Loaded only where needed: few calls need all functions.
if board[4] or board[5] then load_hides() end
if board[4] then open_hides(board[4], REGISTRY) end
if board[3] then start_capture(board[3]) end
if more.sums then load_sums() end
local trail
if board[9] then
  load_trail()
  trail = open_trail(BOARD, REGISTRY, board[9])
end
for e = 1, #details do
  if details[e] == WITH_RANKS then
    load_visible()
    break
  end
end
-- The last erasures of the members, by their numbers.
local erasures = board[5] and load_erasures(REGISTRY, board[5], names) or {}
-- The barrier in the order of time, as a tie key of `ties: first`; nil without one.
local barrier = board[6] and tie_key_of_ms(board[6])
local turnouts = voters and open_turnouts(REGISTRY, more.turnouts, names)
local counts = quotas and open_counts(quotas.rules, quotas.uses)
local history, latest_accepted, accepted, unkept = nil, 0, 0, {}
-- The last revocation before each event from the queue, or that also waited there, when it was queued.
local revoked_before = {}
if more.history then
  load_history()
  history = open_history(BOARD, REGISTRY, layout)
  local noted = call('HMGET', BOARD, 'accepted', 'watched')
  latest_accepted, history.watched = tonumber(noted[1] or 0), noted[2]
  accepted = accepted_after(latest_accepted, now)
  for _, index in ipairs(more.history.unkept) do unkept[index] = true end
end
local keeps_events = history and more.history.keeps

-- Everything is read before the first write. So a key of another type aborts the call before it has written anything, and a
-- repeated call counts no event twice. For a key that is only written, a command that counts is the cheapest type check.

local standings = open_standings(layout, names)
-- Whether keys are to be noted in the registry: new keys are, and those of hidden lists.
local notes_keys = hides or board[2] ~= version

-- Checks what is written of a standing in addition to its entries.
local function look_at(standing)
  standing.stored_count = call('ZCARD', standing.zset)
  notes_keys = notes_keys or standing.stored_count == 0
  if layout.dense then call('ZCARD', standing.dense) end
  if layout.summed then standing.stored_total = call('HMGET', standing.total, 'high', 'low') end
  if hides then
    call('ZCARD', hidden_of(standing).list)
    if layout.dense then call('ZCARD', standing.hidden.scores) end
  end
  if standing.expires and (standing.stored_count == 0 or board[2] ~= version) then
    load_periods()
    local index = index_of(REGISTRY, standing.zset)
    if index then call('ZCARD', index) end
  end
end

-- Adds a standing that the events of a route write.
local function add_target(route, standing, column, code, is_reported)
  local target = {standing = standing, amounts = amounts[column], code = code, is_reported = is_reported}
  route.targets[#route.targets + 1] = target
  load(standing, route.members)
  if not standing.stored_count then look_at(standing) end
  return target
end

-- The stored opening scores of the members of a route, by their numbers: of those who have a seat in its cohort.
local function load_openings(seats, members)
  local ids, openings = {}, {}
  for index, m in ipairs(members) do ids[index] = names[m] end
  for index, seat in ipairs(call('HMGET', KEYS[seats], unpack(ids))) do
    if seat then openings[members[index]] = tonumber(string.match(seat, '^%d+ (-?%d+)$')) end
  end
  return openings
end

-- Loads everything that the events of a route read:
--   members    of its events
--   targets    standings to which an amount is added
--   turnouts   indexes of those that are counted
--   absent     sums without a standing that ends with the event's period; nil if there are none
--   unranked   code of a window that is to be reported and has no ranks, because its standing is absent or not complete
--   openings   of a cohort: see `load_openings`
local function open_route(route)
  local writes, sums, turnouts, seats = route[1], route[2], route[3], route[4]
  route.targets, route.turnouts = {}, turnouts
  if seats then route.openings = load_openings(seats, route.members) end
  for first = 1, #writes, 5 do
    local expires = writes[first + 4]
    if expires == 0 or expires > now then
      local standing = standing_at(standings, writes[first])
      standing.expires = expires
      add_target(route, standing, writes[first + 1], writes[first + 2], writes[first + 3] == 1)
      if unkept[writes[first]] then look_for_folded(standing, route.members) end
    end
  end
  for _, index in ipairs(sums) do open_sum(standings, route, more.sums[index], now, add_target) end
end

-- The values of the keys with these indexes, by key; keys that do not exist are left out.
local function load_values(indexes)
  local wanted, values = {}, {}
  for e = 1, #indexes do
    if indexes[e] > 0 then wanted[#wanted + 1] = keys[indexes[e]] end
  end
  if #wanted == 0 then return values end
  local found = call('MGET', unpack(wanted))
  for index = 1, #wanted do
    if found[index] then values[wanted[index]] = found[index] end
  end
  return values
end

for index = 1, #routes do routes[index].members = {} end
for e = 1, #members do
  local of_route = routes[on_routes[e]].members
  of_route[#of_route + 1] = members[e]
end
for index = 1, #routes do open_route(routes[index]) end
if turnouts then
  notes_keys = turnouts.look_at(members, function(e) return routes[on_routes[e]].turnouts end) or notes_keys
end
if notes_keys then call('SCARD', REGISTRY) end
if hides then
  call('ZCARD', hides.journal)
  call('ZCARD', hides.hidden)
  if next(erasures) then call('HLEN', hides_of(BOARD, REGISTRY).lines) end
end
if quotas then call('SCARD', keys[quotas.registry]) end
-- While the board moves, changes are noted (lib/capture.lua).
if changes then call('HLEN', changes) end
-- The records of events by their keys, and the keys of those that this call has taken.
local records, taken, taken_count = load_values(ids), {}, 0
local voids = tokens and load_values(reservations.voids)
if history then
  load_kept(history, board[5], ids, fingerprints, records)
  call('HLEN', history.of_members.few)
  for _, ordered in ipairs({history.taken, history.of_members.many}) do
    call('ZCARD', ordered.directory)
    call('HLEN', ordered.chunks)
  end
  call('ZCARD', beside_registry(REGISTRY, KIND_SCRATCH))
end

-- The steps of an event, in their order. If a step returns an answer, the event ends there.

-- Whether a member of a league was erased so recently that earlier ids are still remembered.
local function was_erased_lately(erasure)
  return erasure.number > 0 and tie_key_of_ms(now) - erasure.instant < remember_ms * 1000
end

-- The instant that an erasure must precede, or the event is refused: when it counts or was logged, whichever is earlier.
local function stands_since(e)
  local at, logged_at = in_time(ats[e]), more.queue and more.queue.logged_ats[e] or 0
  if logged_at == 0 then return at end
  return math.min(at, logged_at + TIE_KEY_OF_EPOCH)
end

-- The answer to an event whose id is known.
local function answer_again(e, id_key, record, token, erasure)
  if struct.unpack(FINGERPRINT_FORM, record) ~= fingerprints[e] then return {REUSED} end
  if confirm then call('SET', id_key, record, 'KEEPTTL', 'XX') end
  if confirm and history then confirm_row(history, id_key) end
  local told = erasure and erasure_before(record) ~= erasure.number and bare(record) or record
  -- A repetition of the call that took the event, made below the caller.
  if token and string.sub(record, -#token) == token then return told end
  return {DUPLICATE, told}
end

-- Whether the event was taken before, and whether it may be taken now.
local function recognise(e, barrier)
  local id_key, erasure, token = keys[ids[e]], erasures[members[e]], tokens and tokens[e]
  local known = records[id_key]
  if known then return answer_again(e, id_key, known, token, erasure) end
  if erasure and more.recalled and id_key and not more.recalled[e] and was_erased_lately(erasure) then return {ELSEWHERE} end
  if barrier and in_time(ats[e]) < barrier then return {CLOSED, number_text((barrier - TIE_KEY_OF_EPOCH) / 1000)} end
  if refusals[e] == UNLESS_KNOWN then return {REFUSED} end
  if token and voids[keys[reservations.voids[e]]] then return {VOID} end
  if not erasure then return nil end
  if stands_since(e) <= erasure.instant then return {ERASED, number_text(erasure.instant)} end
  if erasure.is_pending then return {ERASING} end
end

-- By how many microseconds a member's entry may be ahead of an event that is moved to follow it.
local FOLLOWED_AHEAD_MAX = 1000000

-- Moves an event without `at` to directly after its member's entry if that is ahead by little and has a time made by the
-- service: another instance, whose clock is ahead, has made it (Clock::arrival). Returns an answer, or nil.
local function follow(e, m, targets)
  local own = in_time(ats[e])
  local at = own
  for _, target in ipairs(targets) do
    local time = target.standing.score[m] and in_time(target.standing.time[m])
    if time and time >= at and time - own <= FOLLOWED_AHEAD_MAX and (time == own or time % 1000 > 0) then
      at = time + 1
      if at % 1000 == 0 then at = at + 1 end
    end
  end
  if at == own then return nil end
  if at >= follow_until[e] then return {BEHIND, number_text(at - TIE_KEY_OF_EPOCH)} end
  ats[e] = in_time(at)
  if quotas then quotas.instants[e] = math.floor((at - TIE_KEY_OF_EPOCH) / 1000) end
end

-- The rows of events that were taken.
local rows = keeps_events and no_rows(accepted > latest_accepted)

-- The result of an event in each target, by the target's index: the new score, time and data, and the score before (false
-- if the member was not listed). The lists are reused for all events.
local new_scores, new_times, new_data, befores = {}, {}, {}, {}

-- Computes the result of an event in each target. Returns the code of a window in which a score would pass the bound, or
-- nil and whether anything changes.
local function compute(route, e, m)
  local targets, tie_key, data, is_changed = route.targets, layout.hashed and ats[e] or nil, event_data and event_data[e], false
  for index = 1, #targets do
    local target = targets[index]
    local standing, amount = target.standing, target.amounts[e]
    local at = tie_key
    if is_sum and amount == 0 and at then at = -1 - at end
    local old_score, old_time = standing.score[m], standing.time[m]
    local score, time, own_data, before = amount, at, data, old_score
    if target.sum then
      score, before, time, own_data =
        add_to_sum(standings, target, m, amount, at, data, new_times[target.base], new_data[target.base])
    elseif old_score then
      score, time = merge(layout, update, old_score, old_time, amount, at)
      if data then own_data = merge_data(standing, m, score, time, amount, at, data, is_sum) end
    elseif route.openings then
      -- A member's first event is added to its opening score.
      score = amount + route.openings[m]
    end
    if score and (score > score_max or score < -score_max) then return target.code end
    new_scores[index], new_times[index], befores[index] = score, time, before
    is_changed = is_changed or score ~= old_score or shows_times and time ~= old_time
    if data then
      new_data[index] = own_data
      is_changed = is_changed or own_data ~= standing.data[m]
    end
  end
  return nil, is_changed
end

-- The answer to an event because of sums that have no standing, as far as their history was sent.
local function evaluate_absent(absent, e, m)
  for _, sum in ipairs(absent) do
    if #sum.terms == 0 and sum.reported == 1 and details[e] ~= STATUS_ALONE then return {NO_HISTORY} end
    if is_beyond(sum, m, amounts[sum.column][e], score_max) then return {OUT_OF_RANGE, sum.code} end
  end
end

-- Computes the result of the event in its targets, and checks that everything to be reported is there. Changes nothing.
-- Returns an answer, or nil and whether anything changes.
local function evaluate(e, m, route)
  local beyond, is_changed = compute(route, e, m)
  if beyond then return {OUT_OF_RANGE, beyond} end
  local unranked = details[e] == WITH_RANKS and (route.unranked or hides and unseen_of(route.targets))
  if unranked then return {NO_STANDING, unranked} end
  local answer = route.absent and evaluate_absent(route.absent, e, m)
  if answer then return answer end
  if refusals[e] == UNLESS_BEYOND then return {REFUSED} end
  return nil, is_changed
end

-- Takes from the quotas. Returns an answer, or nil and, if the caller asks for it, what remains of the quotas.
local function charge(e)
  local uses, instant, remaining = quotas.uses[e], quotas.instants[e], nil
  local pools, refused, frees = counts.choose_pools(uses, instant, {})
  if not pools then return {NO_QUOTA, unpack(counts.shortage_of(uses, refused, frees, instant))} end
  if quotas.asks[e] then remaining = counts.remaining_of(uses, instant) end
  counts.take_from(pools, uses, instant)
  return nil, remaining
end

-- Changes the standings in memory, counts the turnouts, and makes the reports.
local function write(e, m, route)
  if erasures[m] then return_hide(BOARD, REGISTRY, erasures[m], names[m], now) end
  local targets, reports = route.targets, details[e] ~= STATUS_ALONE
  if reports and route.absent then
    for _, sum in ipairs(route.absent) do
      if sum.reported == 1 then report_absent(sum, m, amounts[sum.column][e]) end
    end
  end
  for index = 1, #targets do
    local target, score, time = targets[index], new_scores[index], new_times[index]
    local standing, data = target.standing, new_data[index]
    if reports and target.is_reported then report(target.code, score or 0, befores[index], is_sum) end
    if keeps_events then note_folded(standing, m) end
    local is_written = not score or time or not layout.hashed
    if is_written and (score ~= standing.score[m] or time ~= standing.time[m] or data and data ~= standing.data[m]) then
      set(standing, m, score, time, data)
    end
  end
  if turnouts then turnouts.count(route.turnouts, m, voters[e]) end
end

-- Writes the rows of the events that were taken, and what they found in standings of before.
local function flush_history()
  for _, standing in pairs(standings.opened) do
    store_folded(history, standing.zset, standing.folded or {}, standing.expires, now)
  end
  add_rows(history, rows)
  if #rows.ids > 0 and rows.are_last then note_accepted(history, accepted - 1) end
end

local function flush_standings()
  for _, standing in pairs(standings.opened) do
    local has_changed, is_new = #standing.touched > 0, flush(standing)
    -- The keys of derived standings were registered when they were begun.
    if is_new and standing.expires then
      for _, key in ipairs(keys_of(standing)) do keep_until(REGISTRY, key, standing.expires, now) end
    end
    -- A standing that is not new may be one of an earlier release, which has noted no periods.
    if standing.expires and (is_new or has_changed and board[2] ~= version) then
      load_periods()
      note_period(REGISTRY, standing.zset)
    end
  end
end

-- The ranks of a member in the targets that are reported, as they are stored.
local function ranks_of(targets, m)
  flush_standings()
  local ranks = {}
  for _, target in ipairs(targets) do
    if target.is_reported then ranks[#ranks + 1] = rank_of(target.standing, m, ranking) end
  end
  return ranks
end

-- Makes the record of the event, and remembers it under the id.
local function remember(e, m, is_changed, ranks)
  local id_key, erasure, token = keys[ids[e]], erasures[m], tokens and tokens[e]
  local flags = details[e] + (is_changed and 0 or UNCHANGED) + (token and WITH_TOKEN or 0) + (erasure and WITH_ERASURE or 0)
  local record = make_record(fingerprints[e], ats[e], flags)
  if ranks then record = record .. ranks end
  if erasure then record = record .. struct.pack(ERASURE_FORM, erasure.number) end
  if token then record = record .. token end
  if id_key then records[id_key] = record end
  if keeps_events then
    local id, revocation = id_of_key(history, id_key), revoked_before[e] or more.history.revocation
    local row = make_row(0, accepted, revocation, record, ARGV[3 + e])
    note_row(history, rows, id, row, accepted, ats[e], names[m])
    accepted = accepted + 1
  end
  -- The row remembers the id, too. A reservation looks for the record itself (void.lua).
  if id_key and (not keeps_events or token) then
    taken_count = taken_count + 1
    taken[taken_count] = id_key
  end
  return record
end

-- Whether an event has been taken.
local is_used = false

local function carry_out(e, barrier)
  local answer = recognise(e, barrier)
  if answer then return answer end
  local m, route = members[e], routes[on_routes[e]]
  if route.openings and not route.openings[m] then return {UNSEATED} end
  if follow_until and follow_until[e] > 0 then answer = follow(e, m, route.targets) end
  if answer then return answer end
  local is_changed, remaining, ranks
  answer, is_changed = evaluate(e, m, route)
  if answer then return answer end
  if quotas then answer, remaining = charge(e) end
  if answer then return answer end
  local old_ranks = details[e] == WITH_RANKS and ranks_of(route.targets, m)
  write(e, m, route)
  is_used = true
  if old_ranks then ranks = pack_ranks(ranks_of(route.targets, m), old_ranks) end
  local record = remember(e, m, is_sum or is_changed, ranks)
  if remaining then return {TAKEN, record, unpack(remaining)} end
  return record
end

local reply, queued = {'OK'}, nil
if more.queue or board[8] then
  load_queue()
  queued = open_queued(BOARD, REGISTRY, more.queue, {
    ids = ids, fingerprints = fingerprints, records = records, barrier = barrier, tie_key_of_ms = tie_key_of_ms,
    time_of = function(e) return in_time(ats[e]) end, recognise = recognise, carry_out = carry_out,
    revoked_before = revoked_before,
  })
end
local carry_out_one = queued and queued.carry_out or carry_out
for e = 1, #members do reply[e + 1] = carry_out_one(e, barrier) end

flush_standings()
if keeps_events then flush_history() end
if quotas then counts.flush(keys[quotas.registry], now) end
if turnouts then turnouts.flush(now) end
for index = 1, taken_count do
  local key = taken[index]
  local ms = queued and queued.remembered_longer[key] and number_text(remember_ms + QUEUE_AGE_MS) or remember_ms
  call('SET', key, records[key], 'PX', ms)
end
if is_used and board[2] ~= version then call('HSET', BOARD, 'used', version) end
if queued then queued.leave() end
if trail then leave_trail(trail) end
reply[#reply + 1] = changed or board[7] or ''
return reply
