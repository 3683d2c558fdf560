-- apply.lua: carries out the plans of many events of one board, each whole or not at all.
--
-- The script runs in one slot. It carries out the events of a call in their order, each on what the events before it have
-- left. An event that is refused changes nothing, and the next one goes on. Beside KEYS the script touches the keys that the
-- states name, the voters of members, and the queue, which lies beside the registry (lib/queue.lua).
--
-- What a call guarantees:
--   An event is whole. The script checks everything that can refuse an event before the event changes anything. A call that
--   ends without an error has written all events that it has taken, and their ids.
--   A call is one transaction in the append-only file and for replicas. A crash of Redis loses all of it or nothing.
--   Redis or the script refuses a call before its first write, so that nothing has changed: if memory, the disk or replicas
--   are missing, and on a replica (because of `#!lua` Redis checks this at the start, and not again); while the slot moves
--   (`require_slot`); if a key that is read or written has the wrong type or can't be read (what is only written is looked at
--   as well, see below); and by SCRIPT KILL, which Redis refuses after a write. Redis does not break off a call
--   because it takes long.
--   Redis breaks off a call in the middle: if the user has lost the right to a command; if an invariant does not hold; and by
--   a fault of this script. Redis rolls nothing back: what the call has written stays. Ids are written last. So the ids of
--   such a call are not remembered, and an event that is sent again counts again in the standings that have it already. The
--   caller gets an error, never an outcome. `standings check` finds keys of one standing that disagree, and derived standings
--   that differ from their terms. It does not find that one period has an event and another has not.
--   An event that takes from the log of a quota, or reports ranks, writes before the script looks at the next events. This
--   shows only if the call is broken off.
--
-- KEYS[1]  board      hash: `version`, `used`, `moving`, `hides`, `erased`, `closed_until`, `changed`, and of its queue `queue:open`,
--                     `final_until` and `queue:number` (src/store/keys.rs has the form of every key)
-- KEYS[2]  registry   set: names of the keys that the board's data lies in
-- KEYS[3…] in any order, named by their index in ARGV[1]: standings (`layout.width` keys each), states of
--          derived series (string, see lib/derived.lua), turnouts (hash, HyperLogLog), seats of cohorts (hash), remembered
--          event ids (string)
--
-- Names in capitals are in src/store/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   version     text; what KEYS[1] must hold, or else the reply is STALE
--   now         ms since the epoch
--   layout      see lib/standing.lua
--   ranking     'ordinal' | 'competition' | 'dense'
--   update      'sum' | 'greatest' | 'least' | 'last_greatest' | 'last_least', of stored scores
--   score_max   the greatest stored score of the board
--   remember    text; ms for which an event id is remembered
--   confirm     true: the caller waits for replicas after this call. Then the script writes the record of a duplicate
--               again, so that the replicas have it too, wherever it was written first
--   sums        list of {state, code, reported (0 | 1), column, start (ms: the event's period), base (standing), expires,
--                lists_zero: whether it has initial scores,
--                later = {{start, standing}, …} newest first,
--                history = {standing, …}, what it is the sum of, empty where it was not sent}
--   turnouts    list of {events, voters (keys), expires}: where the events of a period and their voters are counted
--   tag         the tag of the shard, under which it counts events
--   routes      list of {writes = list of write, sums = list of indexes in `sums`, turnouts = list of indexes
--                in `turnouts`, members = list of numbers; of a cohort also seats: key index of its seats (see seat.lua)}
--     write     {standing, column in `amounts`, code of the window, reported (0 | 1),
--                expires (ms since the epoch, 0: never)}
--   names       ids of the members
-- and the events, in columns:
--   members     numbers of members
--   ids         key index of the event's id, 0: none
--   amounts     list of columns of stored scores: the event's own, and what it carries over
--   ats         tie keys
--   follow_until   with `update` 'last_…': a tie key of `ties: first`, up to which (exclusive) the event may come behind what its member
--               has; 0: it may not
--   fingerprints
--   on_routes   indexes in `routes`
--   details     what is to be reported: STATUS_ALONE, WITH_STANDINGS, WITH_RANKS
--   refusals    when the event is refused: NEVER; UNLESS_KNOWN: unless its id is known; UNLESS_BEYOND: unless its id is known
--               or a score would pass the bound. The list ends with the last event that may be refused
-- and, where the board keeps data:
--   data        canonical JSON of the events, empty for none
-- and, in a league:
--   recalled    whether the event's id was looked up in all shards
-- and, where voters are counted:
--   voters      ids, empty for none
--   by_member   whether they are also counted for each member
-- and, where the board has quotas, `quotas`:
--   rules       see lib/quota.lua
--   instants    of the events, ms since the epoch
--   uses        of the events, for each a list; see lib/quota.lua
--   asks        for each event: whether the reply has what remains of its quotas
--   registry    key index of the set with the names of counts that don't expire
-- and, where the counts of quotas lie in other slots (see reserve.lua):
--   tokens      of the events' reservations, eleven bytes each, false for none
--   voids       key indexes of the marks that void the tokens (see void.lua), 0: none
-- and, if events come out of the shard's queue, `queue`; its lists may end before the events do:
--   entries     of the events: their entries in the queue, empty for one that does not come out of it
--   bytes       what their entries count
--   leases      text; the number of the lease under which each is applied
--   lates       the barrier of the closing for which they are late (take.lua), ms since the epoch; 0: for none
--   logged_ats  when those out of the log were queued, microseconds since the epoch; 0: not out of the log. An erasure after that refuses them,
--               whatever they count for. (What waits in the queue alone, the erasure itself takes out of it: forget.lua)
-- An event that comes out of the queue is carried out only while it is in the queue, and under the number that the lease of the queue has
-- now. It is compared with `final_until`, not with the barrier: what was queued before a closing counts, unless that waits no longer
-- (close_shard.lua); what is late for a closing is compared with the barrier of that. If it is taken, or is a duplicate, it leaves the queue
-- in the same step. So does the same event, under the same id, in the queue of the shard when another one is taken or is a duplicate that
-- does not come out of it: the queued one may wait until the id is forgotten. While others wait under an id, with another content, it is
-- remembered for as long as they may wait.
--
-- Reply: {'STALE'}, or {'OK', one for each event, the field `changed` of the head after the call ('' for none; lib/changed.lua)}:
--   record               taken: what is remembered of it
--   {TAKEN, record, remaining…}   the same, with what remains of each quota, as text
--   {DUPLICATE, record}  what was remembered
--   {REUSED}             an event with this id and another content was taken before
--   {REFUSED}            refused as the caller said
--   {OUT_OF_RANGE, code} a score of this window would pass the bound
--   {NO_HISTORY}         a derived standing is not there, and no history was sent: nothing done, send the history
--   {NO_STANDING, code}  ranks were asked for in a derived standing that is not complete, or in a standing whose hidden
--                        list is behind, or that has to be widened (lib/hidden.lua): nothing done, complete it
--   {NO_QUOTA, quota, ms, taken, allowed, amount}   this quota has too little left: when a sliding window would take the event, 0:
--                        unknown; what was taken, of how much, and what the event would take: texts
--   {VOID}               the event's reservation is void: nothing done, reserve again
--   {CLOSED, barrier}    refused: the event lies before the barrier of the shard (close_shard.lua): ms since the epoch, text
--   {ERASED, instant}    refused: the event does not lie after the last erasure of its member, or was not appended to the log after it, at
--                        this instant: a tie key of `ties: first`, text
--   {ERASING}            something is left of the member, who was erased: nothing done, remove it (forget.lua)
--   {ELSEWHERE}          another cohort may remember the id, since the member was erased lately and then seated anew: nothing
--                        done, look it up in all shards (recall.lua)
--   {UNSEATED}           the member has no seat in the cohort: nothing done, seat it (seat.lua)
--   {GONE}               the event is not in the queue, or the lease of the queue has another number: nothing done
--   {WAITING, at, queued}   the event waits in the queue, and counts for another instant there, or the caller has refused it: nothing
--                        done, plan it by these times. Two texts, microseconds since the epoch
--   {BEHIND, instant}    the event has to come behind what its member has, and so in another period: nothing done, plan it for this
--                        instant or a later one: text, microseconds since the epoch
-- A duplicate that was taken before the last erasure of its member comes without what it reported.
-- src/store/protocol.rs has the layout of a record.
--
-- Example: one event of 5 points for `ann` on a board with the window `day` (code 1024), ties by member:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:s:day:2026-11-21  st:{b}:1:e:x1
--   ARGV  {version='1-1', …, sums={}, turnouts={},
--          routes={{writes={{3, 1, 1024, 1, 0}}, sums={}, turnouts={}, members={1}}}, names={'ann'},
--          members={1}, ids={4}, amounts={{-5}}, ats={4004294400000001}, fingerprints={77}, on_routes={1},
--          details={1}, refusals={}}
--   reply {'OK', record, '1 4f0c2a9be41d'}

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR apply.lua: 2 keys or more, 1 argument') end
local BOARD, REGISTRY = KEYS[1], KEYS[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking, update, now = args.layout, args.ranking, args.update, args.now
local members, ids, ats, on_routes = args.members, args.ids, args.ats, args.on_routes
local fingerprints, details, refusals, tokens = args.fingerprints, args.details, args.refusals, args.tokens
local routes, voters, quotas, keys = args.routes, args.voters, args.quotas, KEYS
local event_data, follow_until = args.data, args.follow_until
local is_sum, score_max = update == 'sum', args.score_max
-- If `is_sum` is false some layouts keep times all the same, but no answer depends on them.
local shows_times = layout.prefixed or update == 'last_greatest' or update == 'last_least'

-- The tie key of `ties: first` of an instant, ms since the epoch.
local function tie_key_of_ms(ms)
  return ms * 1000 + TIE_KEY_OF_EPOCH
end

local board = call('HMGET', BOARD, 'version', 'used', 'moving', 'hides', 'erased', 'closed_until', 'changed', 'queue:open')
if board[1] ~= args.version then return {'STALE'} end
-- Few calls need all functions.
if board[4] or board[5] then load_hides() end
if board[4] then open_hides(board[4], REGISTRY) end
for e = 1, #details do
  if details[e] == WITH_RANKS then
    load_visible()
    break
  end
end
if board[3] then start_capture(board[3]) end
-- The last erasures of the members, by their numbers.
local erasures = board[5] and load_erasures(REGISTRY, board[5], args.names) or {}
-- The barrier in the order of time, as a tie key of `ties: first`; nil without one.
local barrier = board[6] and tie_key_of_ms(board[6])
invariant(#ids == #members and #details == #members, 'the columns are of one length')

local standings = open_standings(layout, args.names)

-- Routes: what the events of the same periods read and write.

-- The entries of derived series, by the key indexes of their states.
local entries_of_state = {}

local function entries_of(state)
  local entries = entries_of_state[state]
  if entries then return entries end
  entries = derived_entries(KEYS[state])
  for _, entry in ipairs(entries) do
    entry.standing = open_standing(standings, entry)
    entry.standing.kind = KIND_DERIVED
    for _, term in ipairs(entry.terms or {}) do term.standing = open_standing(standings, term) end
  end
  entries_of_state[state] = entries
  return entries
end

-- The members among these that are not listed. They must be loaded.
local function unlisted(standing, members)
  local found = {}
  for _, m in ipairs(members) do
    if not standing.score[m] then found[#found + 1] = m end
  end
  return found
end

-- A member's sum over terms, which are {standing, sign}; false if the member is not to be listed.
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

-- Whether an event of a sum's period can change what a standing holds, or what it is being built from.
local function concerns(sum, entry)
  return sum.start >= (entry.depends or entry.oldest) and sum.start <= entry.start
end

local function add_target(route, target)
  route.targets[#route.targets + 1] = target
  load(target.standing, route.members)
  if target.entry and not target.entry.done then
    local missing = unlisted(target.standing, route.members)
    for _, term in ipairs(target.entry.terms) do load(term.standing, missing) end
  end
end

local function open_write(route, write)
  local first, column, code, reported, expires = unpack(write)
  if expires ~= 0 and expires <= now then return end
  local standing = standing_at(standings, first)
  standing.expires = expires
  add_target(route, {standing = standing, amounts = args.amounts[column], code = code, is_reported = reported == 1})
  route.target_of[first] = #route.targets
end

-- Notes that a sum has no standing that ends with the event's period.
local function open_absent(route, sum)
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

local function open_sum(route, sum)
  local base, has_own = route.target_of[sum.base], false
  -- The event's period has expired.
  if not base then return end
  for _, entry in ipairs(entries_of(sum.state)) do
    if concerns(sum, entry) then
      local is_own = entry.start == sum.start
      local is_reported = is_own and sum.reported == 1
      has_own = has_own or is_own
      add_target(route, {
        standing = entry.standing, amounts = args.amounts[sum.column], code = sum.code, is_reported = is_reported,
        sum = sum, entry = entry, base = base,
      })
      if is_reported and not entry.done then route.unranked = sum.code end
    end
  end
  if not has_own and (sum.expires == 0 or sum.expires > now) then open_absent(route, sum) end
end

-- The stored scores with which the members of a route open, by their numbers: of those who have a seat in its cohort.
local function load_openings(route)
  local ids, openings = {}, {}
  for index, m in ipairs(route.members) do ids[index] = args.names[m] end
  for index, seat in ipairs(call('HMGET', KEYS[route.seats], unpack(ids))) do
    if seat then openings[route.members[index]] = tonumber(string.match(seat, '^%d+ (-?%d+)$')) end
  end
  return openings
end

-- Loads everything that the events of a route read, and sorts it by what the script does with it:
--   targets    standings that take an amount
--   target_of  index in KEYS -> index in `targets`, for standings that are no sums
--   absent     sums without a standing that ends with the event's period; nil if there are none
--   unranked   code of a window that is to be reported and has no ranks, because its standing is absent or not complete
--   openings   of a cohort: see `load_openings`
local function open_route(route)
  route.targets, route.target_of = {}, {}
  if route.seats then route.openings = load_openings(route) end
  for _, write in ipairs(route.writes) do open_write(route, write) end
  for _, index in ipairs(route.sums) do open_sum(route, args.sums[index]) end
end

-- Keys, and when they expire.

local function flush_standings()
  for _, standing in pairs(standings.opened) do
    local has_changed, is_new = #standing.touched > 0, flush(standing)
    -- The keys of derived standings were registered when they were begun.
    if is_new and standing.expires then
      for _, key in ipairs(keys_of(standing)) do keep_until(REGISTRY, key, standing.expires, now) end
    end
    -- A standing that is not new may be one of an earlier release, which has noted no periods.
    if standing.expires and (is_new or has_changed and board[2] ~= args.version) then
      load_periods()
      note_period(REGISTRY, standing.zset)
    end
  end
end

-- The values of the keys with these indexes, by key; keys that do not exist are left out.
local function load_values(indexes)
  local wanted, values = {}, {}
  for _, index in ipairs(indexes) do
    if index > 0 then wanted[#wanted + 1] = keys[index] end
  end
  if #wanted == 0 then return values end
  for index, value in ipairs(call('MGET', unpack(wanted))) do
    if value then values[wanted[index]] = value end
  end
  return values
end

-- Turnouts: what is counted of the events that this call takes, by index in `args.turnouts`.

local turnouts = {}

local function count_turnout(route, m, voter)
  for _, index in ipairs(route.turnouts) do
    local turnout = turnouts[index] or {events = 0, voters = {}, of_member = {}}
    turnouts[index] = turnout
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

local function add_voters(kind, key, ids, expires)
  if #ids > 0 and call('PFADD', key, unpack(ids)) == 1 then
    keep_until(REGISTRY, key, expires, now)
    capture(kind, key)
  end
end

local function flush_turnouts()
  for index, turnout in pairs(turnouts) do
    note_change()
    local events, voters, expires = unpack(args.turnouts[index])
    if expires == 0 or expires > now then
      local count = call('HINCRBY', KEYS[events], args.tag, turnout.events)
      if count == turnout.events then keep_until(REGISTRY, KEYS[events], expires, now) end
      capture(KIND_TURNOUT, KEYS[events])
      add_voters(KIND_VOTERS, KEYS[voters], turnout.voters, expires)
      for m, ids in pairs(turnout.of_member) do
        add_voters(KIND_MEMBER_VOTERS, voters_of_member(KEYS[voters], args.names[m]), ids, expires)
      end
    end
  end
end

-- The record that is being made: the fields of its reports, their number, and whether a score among them is wide.
-- What every event uses is in locals, because an access to a table costs ten times as much.
local fields, field_count, has_wide = {}, 0, false
local FIELDS_OF_REPORT = is_sum and 2 or 3
-- The forms of records by how many fields their reports have.
local narrow_forms, wide_forms = {}, {}
local pack, unpack_text = struct.pack, struct.unpack

local function is_wide(score)
  return score > NARROW_MAX or score < -NARROW_MAX - 1
end

local function report(code, score, old_score)
  fields[field_count + 1] = old_score and code + LISTED_BEFORE or code
  fields[field_count + 2] = score
  has_wide = has_wide or is_wide(score)
  if not is_sum then
    fields[field_count + 3] = old_score or 0
    has_wide = has_wide or is_wide(old_score or 0)
  end
  field_count = field_count + FIELDS_OF_REPORT
end

local function make_record(fingerprint, at, flags)
  local forms = has_wide and wide_forms or narrow_forms
  local form = forms[field_count]
  if not form then
    local score_form = has_wide and WIDE_SCORE_FORM or NARROW_SCORE_FORM
    local report_form = CODE_FORM .. string.rep(score_form, FIELDS_OF_REPORT - 1)
    form = HEAD_FORM .. string.rep(report_form, field_count / FIELDS_OF_REPORT)
    forms[field_count] = form
  end
  return pack(form, fingerprint, at, flags + (has_wide and WIDE or 0), unpack(fields, 1, field_count))
end

-- The records of events by their keys, and the keys of those that this call has taken.
local records, taken, taken_count = load_values(ids), {}, 0
local voids = tokens and load_values(args.voids)
local counts = quotas and open_counts(quotas.rules, quotas.uses)
-- Whether an event has been taken.
local is_used = false
-- The result of an event in each target, by the target's index: the new score, time and data, and the score before, which is
-- false if the member was not listed. All events use the same lists.
local new_scores, new_times, new_data, befores = {}, {}, {}, {}

-- The number of the last erasure of its member before an event was taken, 0 for none.
local function erasure_before(record)
  local _, _, flags = unpack_text(HEAD_FORM, record)
  if flags % (2 * WITH_ERASURE) < WITH_ERASURE then return 0 end
  local token_bytes = flags % (2 * WITH_TOKEN) < WITH_TOKEN and 0 or TOKEN_BYTES
  return (unpack_text(ERASURE_FORM, record, #record - token_bytes - ERASURE_BYTES + 1))
end

-- A record without what it reports.
local function bare(record)
  return string.sub(record, 1, HEAD_BYTES - 1) .. string.char(STATUS_ALONE)
end

-- A tie key in the order of time.
local function in_time(tie_key)
  return layout.later > 0 and tie_key or TIE_KEY_MAX - tie_key
end

-- The steps of an event, in their order. If a step returns an answer, it is the last one.

-- Whether a member of a league was erased so lately that ids of before are remembered.
local function was_erased_lately(erasure)
  return erasure.number > 0 and tie_key_of_ms(now) - erasure.instant < args.remember * 1000
end

-- What an erasure has to lie before, or else the event is refused: what it counts for, and when it was appended to the log.
local function stands_since(e)
  local at, logged_at = in_time(ats[e]), args.queue and args.queue.logged_ats[e] or 0
  if logged_at == 0 then return at end
  return math.min(at, logged_at + TIE_KEY_OF_EPOCH)
end

-- Whether the event was taken before, and whether it may be taken now.
local function recognise(e, id_key, token)
  local known, erasure = id_key and records[id_key], erasures[members[e]]
  if known then
    if unpack_text(FINGERPRINT_FORM, known) ~= fingerprints[e] then return {REUSED} end
    if args.confirm then call('SET', id_key, known, 'KEEPTTL', 'XX') end
    local told = erasure and erasure_before(known) ~= erasure.number and bare(known) or known
    -- The same call once more: it was repeated on the way.
    if token and string.sub(known, -#token) == token then return told end
    return {DUPLICATE, told}
  end
  if erasure and args.recalled and id_key and not args.recalled[e] and was_erased_lately(erasure) then
    return {ELSEWHERE}
  end
  if barrier and in_time(ats[e]) < barrier then return {CLOSED, number_text((barrier - TIE_KEY_OF_EPOCH) / 1000)} end
  if refusals[e] == UNLESS_KNOWN then return {REFUSED} end
  if token and voids[keys[args.voids[e]]] then return {VOID} end
  if erasure and stands_since(e) <= erasure.instant then return {ERASED, number_text(erasure.instant)} end
  if erasure and erasure.is_pending then return {ERASING} end
end

-- The new score and time of a listed member that gets this amount.
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

-- The data of a listed member with this new score and time, after an event: that of whichever has given it both, the event or
-- the entry before; of both the greater.
local function merge_data(standing, m, score, time, amount, at, data)
  local by_event = time == at and (is_sum or score == amount)
  local by_entry = time == standing.time[m] and (is_sum or score == standing.score[m])
  if by_event and by_entry then return greater_data(standing.data[m], data) end
  return by_event and data or standing.data[m]
end

-- The time and the data of a member in a derived standing that does not list it: those of its newest period there.
local function newest_time(target, m, base)
  for _, after in ipairs(target.sum.later) do
    if after[1] <= target.entry.start then
      local standing = standing_at(standings, after[2])
      load(standing, {m})
      local time = standing.score[m] and standing.time[m]
      if time and time >= 0 then return time, standing.data and standing.data[m] end
    end
  end
  return new_times[base], new_data[base]
end

-- Whether a member that has nothing but zeros in a period has an initial score.
local function has_initial(standing, entry, m)
  if standing.score[m] then return standing.time[m] >= 0 end
  for _, term in ipairs(entry.terms or {}) do
    if term.is_initial then return term.standing.score[m] end
  end
end

-- The result of an event for a member in a derived standing: the new score (false: not listed), the score before, the new
-- time, and the new data. A score without a time is told and not written: the walk lists the member (advance.lua).
local function add_to_sum(target, m, amount, at, data)
  local standing, entry, sum = target.standing, target.entry, target.sum
  local old_score, old_time = standing.score[m], standing.time[m]
  local is_within = sum.start >= entry.oldest
  if old_score and not is_within then return old_score, old_score, old_time, data and standing.data[m] end
  local before = old_score
  if not before and not entry.done then before = sum_of_terms(sum, entry.terms, m) end
  local score = before or 0
  if is_within then score = score + amount end
  if sum.lists_zero then
    local time = new_times[target.base]
    local is_initial = time and time < 0 and has_initial(standing, entry, m)
    return score, before, with_initial(entry.floor, is_initial, time, new_data[target.base])
  end
  if amount == 0 then return before, before, old_time, data and standing.data[m] end
  if score == 0 then return false, before, nil, nil end
  if not layout.hashed then return score, before, nil, nil end
  if not old_score then return score, before, newest_time(target, m, target.base) end
  local time = latest(layout, old_time, at)
  return score, before, time, data and merge_data(standing, m, score, time, amount, at, data)
end

-- Computes the result of an event in each target. `openings`: of a cohort, where a member's first event comes on top of its
-- opening score. Returns the code of a window in which a score would pass the bound, or nil and whether anything changes.
local function compute(targets, e, m, openings)
  local tie_key, data, is_changed = layout.hashed and ats[e] or nil, event_data and event_data[e], false
  for index = 1, #targets do
    local target = targets[index]
    local standing, amount = target.standing, target.amounts[e]
    local at = tie_key
    if is_sum and amount == 0 and at then at = -1 - at end
    local old_score, old_time = standing.score[m], standing.time[m]
    local score, time, own_data = amount, at, data
    local before = old_score
    if target.sum then
      score, before, time, own_data = add_to_sum(target, m, amount, at, data)
    elseif old_score then
      score, time = merge(old_score, old_time, amount, at)
      if data then own_data = merge_data(standing, m, score, time, amount, at, data) end
    elseif openings then
      score = amount + openings[m]
    end
    if score and (score > score_max or score < -score_max) then return target.code end
    new_scores[index], new_times[index], befores[index] = score, time, before
    is_changed = is_changed or score ~= old_score or (shows_times and time ~= old_time)
    if data then
      new_data[index] = own_data
      is_changed = is_changed or own_data ~= standing.data[m]
    end
  end
  return nil, is_changed
end

-- The same for the sums that have no standing, as far as their history was sent.
local function evaluate_absent(absent, e, m)
  for _, sum in ipairs(absent) do
    if #sum.terms == 0 then
      if sum.reported == 1 and details[e] ~= STATUS_ALONE then return {NO_HISTORY} end
    elseif math.abs((sum_of_terms(sum, sum.terms, m) or 0) + args.amounts[sum.column][e]) > score_max then
      return {OUT_OF_RANGE, sum.code}
    end
  end
end

-- The code of a window that is to be reported, and can't be shown before more is known of the hidden members.
local function unseen_of(targets)
  for _, target in ipairs(targets) do
    local standing = target.standing
    if target.is_reported and not (is_list_current(standing) and not is_short(standing)) then return target.code end
  end
end

-- Computes the result of the event in its targets, and checks that everything to be reported is there. Changes nothing.
-- Returns an answer, or nil and whether anything changes.
local function evaluate(e, m, route)
  local beyond, is_changed = compute(route.targets, e, m, route.openings)
  if beyond then return {OUT_OF_RANGE, beyond} end
  local unranked = details[e] == WITH_RANKS and (route.unranked or hides and unseen_of(route.targets))
  if unranked then return {NO_STANDING, unranked} end
  local answer = route.absent and evaluate_absent(route.absent, e, m)
  if answer then return answer end
  if refusals[e] == UNLESS_BEYOND then return {REFUSED} end
  return nil, is_changed
end

-- By how many microseconds what a member has may be ahead of an event that comes behind it.
local FOLLOWED_AHEAD_MAX = 1000000

-- Puts an event without `at` directly behind what its member has with a time that the service has made, if that is ahead by little:
-- another instance has made it, whose clock is ahead (Clock::arrival). Returns an answer, or nil.
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

-- Takes from the quotas. Returns an answer, or nil and, if the caller asks for it, what remains of the quotas.
local function charge(e)
  local uses, instant, remaining = quotas.uses[e], quotas.instants[e], nil
  local pools, refused, frees = counts.choose_pools(uses, instant, {})
  if not pools then return {NO_QUOTA, unpack(counts.shortage_of(refused, frees, instant))} end
  if quotas.asks[e] then remaining = counts.remaining_of(uses, instant) end
  counts.take_from(pools, instant, now)
  return nil, remaining
end

-- The rank of a member that is stored with this score and time; 0 if it is hidden, or behind the last that is listed.
local function rank_of(standing, m, score, time)
  local text = number_text(score)
  if ranking ~= 'ordinal' and layout.keep == 0 and not hidden_entries(standing) then
    return count_ahead(standing, ranking, text) + 1
  end
  local position = position_of_entry(standing, text, zmember(standing, m, time))
  invariant(position ~= -1 or layout.keep > 0, 'a listed member is in its sorted set')
  if not position or position < 0 then return 0 end
  return ranking == 'ordinal' and position + 1 or count_ahead(standing, ranking, text) + 1
end

-- The rank of a member in each target that is reported, as it is stored; 0 if the member is not listed.
local function ranks_of(targets, m)
  flush_standings()
  local ranks = {}
  for index, target in ipairs(targets) do
    local standing = target.standing
    local score = standing.score[m]
    ranks[index] = target.is_reported and score and rank_of(standing, m, score, standing.time[m]) or 0
  end
  return ranks
end

local function report_absent(absent, e, m)
  for _, sum in ipairs(absent) do
    if sum.reported == 1 then
      local before = sum_of_terms(sum, sum.terms, m)
      report(sum.code, (before or 0) + args.amounts[sum.column][e], before)
    end
  end
end

-- Changes the standings and turnouts in memory, and makes the reports.
local function write(e, m, route)
  if erasures[m] then return_hide(BOARD, REGISTRY, erasures[m], args.names[m], now) end
  local targets, reports = route.targets, details[e] ~= STATUS_ALONE
  field_count, has_wide = 0, false
  if reports and route.absent then report_absent(route.absent, e, m) end
  for index = 1, #targets do
    local target, score, time = targets[index], new_scores[index], new_times[index]
    local standing = target.standing
    if reports and target.is_reported then report(target.code, score or 0, befores[index]) end
    local data = new_data[index]
    local is_written = not score or time or not layout.hashed
    if is_written and (score ~= standing.score[m] or time ~= standing.time[m] or (data and data ~= standing.data[m])) then
      set(standing, m, score, time, data)
    end
  end
  if voters then count_turnout(route, m, voters[e]) end
  is_used = true
end

-- Makes the record of the event, and remembers it under the id.
local function remember(e, id_key, token, flags, ranks)
  local erasure = erasures[members[e]]
  flags = details[e] + flags + (token and WITH_TOKEN or 0) + (erasure and WITH_ERASURE or 0)
  local record = make_record(fingerprints[e], ats[e], flags)
  if ranks then record = record .. ranks end
  if erasure then record = record .. pack(ERASURE_FORM, erasure.number) end
  if token then record = record .. token end
  if id_key then
    records[id_key] = record
    taken_count = taken_count + 1
    taken[taken_count] = id_key
  end
  return record
end

-- The ranks of a record.
local function pack_ranks(targets, ranks, old_ranks)
  local packed = {}
  for index, target in ipairs(targets) do
    if target.is_reported then packed[#packed + 1] = pack(RANKS_FORM, ranks[index], old_ranks[index]) end
  end
  return table.concat(packed)
end

local function carry_out(e)
  local m, route, id, token = members[e], routes[on_routes[e]], ids[e], tokens and tokens[e]
  local id_key = id > 0 and keys[id]
  local answer = recognise(e, id_key, token)
  if answer then return answer end
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
  if old_ranks then ranks = pack_ranks(route.targets, ranks_of(route.targets, m), old_ranks) end
  local record = remember(e, id_key, token, (is_sum or is_changed) and 0 or UNCHANGED, ranks)
  if remaining then return {TAKEN, record, unpack(remaining)} end
  return record
end

for _, route in ipairs(routes) do open_route(route) end

-- Keys that are only written. The call looks at them before its first write: one of another type breaks it off here, so that whoever
-- makes the call again counts no event twice. A command that counts is the cheapest one that knows its type. The code stands in no
-- function, since to make one costs more than a command.

-- Whether a key is to be noted in the registry: new ones are, and hidden lists.
local notes_keys, seen_keys = hides or board[2] ~= args.version, {}

for _, route in ipairs(routes) do
  for _, target in ipairs(route.targets) do
    local standing = target.standing
    if not seen_keys[standing] then
      seen_keys[standing] = true
      local is_new = call('ZCARD', standing.zset) == 0
      notes_keys = notes_keys or is_new
      if layout.dense then call('ZCARD', standing.dense) end
      if layout.summed then standing.stored_total = call('HMGET', standing.total, 'high', 'low') end
      if hides then
        local hidden = hidden_of(standing)
        call('ZCARD', hidden.list)
        if layout.dense then call('ZCARD', hidden.scores) end
      end
      if standing.expires and (is_new or board[2] ~= args.version) then
        load_periods()
        local index = index_of(REGISTRY, standing.zset)
        if index then call('ZCARD', index) end
      end
    end
  end
end

-- Looks at the voters that are counted in a key.
local function look_at_voters(key)
  if seen_keys[key] then return end
  seen_keys[key] = true
  local magic = call('GETRANGE', key, 0, 3)
  invariant(magic == '' or magic == 'HYLL', key .. ' counts voters')
  notes_keys = notes_keys or magic == ''
end

for _, turnout in ipairs(args.turnouts) do
  if call('HLEN', KEYS[turnout[1]]) == 0 then notes_keys = true end
  if voters then look_at_voters(KEYS[turnout[2]]) end
end
for e = 1, args.by_member and #members or 0 do
  for _, index in ipairs(voters[e] ~= '' and routes[on_routes[e]].turnouts or {}) do
    look_at_voters(voters_of_member(KEYS[args.turnouts[index][2]], args.names[members[e]]))
  end
end

if notes_keys then call('SCARD', REGISTRY) end
if hides then
  local of_shard = hides_of(BOARD, REGISTRY)
  call('ZCARD', of_shard.journal)
  if next(erasures) then
    call('HLEN', of_shard.lines)
    call('ZCARD', of_shard.hidden)
  end
end
if quotas then
  call('SCARD', keys[quotas.registry])
  -- The logs of the first event are read before anything is written.
  for e = 2, #members do
    for _, use in ipairs(quotas.uses[e]) do
      for _, index in ipairs(quotas.rules[use[1]].log > 0 and use[4] or {}) do
        if index > 0 and not seen_keys[index] then
          seen_keys[index] = true
          call('ZCARD', KEYS[index])
        end
      end
    end
  end
end
-- While the board moves, changes are noted (lib/capture.lua).
if changes then call('HLEN', changes) end

-- Carries out one event; and the entries that leave the queue with this call, nil if nothing can wait there.
local carry_out_one, leaving = carry_out, nil
-- The records of events under whose ids others wait, with another content.
local others_wait = {}
local queue = args.queue
local QUEUE, QUEUE_IDS, QUEUE_STATE
if queue or board[8] then
  load_queue()
  leaving = {}
  QUEUE, QUEUE_IDS = beside_registry(REGISTRY, KIND_QUEUE), beside_registry(REGISTRY, KIND_QUEUE_IDS)
  QUEUE_STATE = beside_registry(REGISTRY, KIND_QUEUE_STATE)
  call('XLEN', QUEUE)
  call('HLEN', QUEUE_STATE)
  local head, own_barrier = call('HMGET', BOARD, 'queue:number', 'final_until'), barrier
  local lease, final_until = head[1], head[2] and tie_key_of_ms(head[2])

  -- The barrier of an event that has waited in the queue.
  local function barrier_of_queued(late)
    if late == 0 then return final_until end
    return math.max(final_until or 0, tie_key_of_ms(late))
  end

  -- The ids of the events, '' for none, and the entries of each id as text.
  local event_ids, entries_of, prefix = {}, {}, beside_registry(REGISTRY, KIND_EVENT_ID .. ':')
  for e, index in ipairs(ids) do
    local key = keys[index] or ''
    event_ids[e] = string.sub(key, 1, #prefix) == prefix and string.sub(key, #prefix + 1) or ''
  end
  for e, text in ipairs(call('HMGET', QUEUE_IDS, unpack(event_ids))) do entries_of[event_ids[e]] = text or '' end
  -- Two events without id are never the same.
  entries_of[''] = ''

  local function was_taken(answer)
    return type(answer) == 'string' or answer[1] == TAKEN or answer[1] == DUPLICATE
  end

  local function leave(id, entry, bytes)
    entries_of[id] = without_entry(entries_of[id], entry)
    leaving[#leaving + 1] = {entry = entry, id = id, bytes = bytes}
  end

  local function carry_out_queued(e, entry)
    barrier = barrier_of_queued(queue.lates[e])
    local id = event_ids[e]
    if queue.leases[e] ~= lease or not names_entry(entries_of[id], entry) then
      local token = tokens and tokens[e]
      local known = recognise(e, keys[ids[e]], token)
      -- The same call once more: it was repeated on the way.
      return type(known) == 'string' and known or {GONE}
    end
    local answer = carry_out(e)
    if was_taken(answer) then leave(id, entry, queue.bytes[e]) end
    return answer
  end

  local function carry_out_new(e)
    local id = event_ids[e]
    local entry, event, parts, late = entry_with(QUEUE, entries_of[id], fingerprints[e])
    if not entry then
      barrier = own_barrier
      return carry_out(e)
    end
    -- What waits has been taken into the queue before the barrier rose.
    barrier = barrier_of_queued(late)
    -- See src/domain/queued.rs.
    local at, queued_at = parts[5], parts[6]
    local is_as_queued = in_time(ats[e]) == at + TIE_KEY_OF_EPOCH or records[keys[ids[e]]]
    local answer = is_as_queued and carry_out(e)
    if not answer or answer[1] == REFUSED then return {WAITING, number_text(at), number_text(queued_at)} end
    if was_taken(answer) then leave(id, entry, bytes_of_entry(id, event)) end
    return answer
  end

  carry_out_one = function(e)
    local entry = queue and queue.entries[e] or ''
    local answer = entry == '' and carry_out_new(e) or carry_out_queued(e, entry)
    if entries_of[event_ids[e]] ~= '' and was_taken(answer) then others_wait[keys[ids[e]]] = true end
    return answer
  end
end

local reply = {'OK'}
for e = 1, #members do reply[e + 1] = carry_out_one(e) end

flush_standings()
if quotas then counts.flush(keys[quotas.registry], now) end
flush_turnouts()
local remember_ms = args.remember
for index = 1, taken_count do
  local key = taken[index]
  local ms = others_wait[key] and number_text(remember_ms + QUEUE_AGE_MS) or remember_ms
  call('SET', key, records[key], 'PX', ms)
end
if is_used and board[2] ~= args.version then call('HSET', BOARD, 'used', args.version) end
if leaving and #leaving > 0 then leave_queue(QUEUE, QUEUE_IDS, QUEUE_STATE, leaving) end
reply[#reply + 1] = changed or board[7] or ''
return reply
