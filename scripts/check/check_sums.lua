-- check_sums.lua: compares a standing with those that it follows from. A derived standing that is complete has to be the
-- sum of its terms. The standing of a period with carryover has to be the sum of what was added and what was carried over.
-- The script checks some of the members at a time (lib/cursor.lua). On request it drops a derived standing that differs;
-- the service builds it again when it is needed. The caller allows that only if the standing's terms are sound.
-- Uses: lib/members.lua, lib/keys.lua, lib/past_initial.lua, lib/standing.lua, lib/derived.lua, lib/check.lua
--
-- Takes: 5 keys or more, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; KEYS[3] state of the series (lib/derived.lua), or the head again
-- KEYS[4…] the standing's keys (`layout.width`), and then those of its terms, newest first, `layout.width` keys each:
--          of `rolling` the periods, of `initial` the period and the initial scores, of `carried` the period and the one
--          before, without what was carried over
--
-- ARGV[1]  MessagePack of a map:
--   generation, revision   of the definition that the caller uses
--   layout    see lib/standing.lua
--   kind      'rolling' | 'initial' | 'carried'
--   start     ms: where the newest period of the standing begins
--   floor     of `initial`: the tie key of `start`, where the layout is hashed
--   ends      of `initial`: ms: where the period ends, or when the board closes before that
--   ratio     of `carried`: the share that is carried over, in millionths, 0: not known
--   sign      -1 where scores are stored negated, otherwise 1
--   term      which standing is walked, 0: the standing itself; after the last term come the past initial scores
--   cursor    '0' at first
--   budget    about how many members × terms one call visits
--   drop      whether to drop the standing without comparing it: check.lua has found that its keys contradict each other
--   repair    see lib/check.lua
--
-- Reply: {'STALE'} another definition is in use | {'GONE'} there is no such standing, or it is not complete |
--   {'LOST'} one of its terms existed, and no longer does | {'OK', next term (-1: this was the last part), next cursor,
--   how many terms have no data, difference, …}, as in check.lua:
--   dropped   the standing was to be dropped without comparing it
--   sum       member; score, time that are stored; score, time by the terms
--   data      member; data that is stored; data by the terms
--   carried   member; score; score without what was carried over; score in the period before
--
-- Example: last-2-days at 2026-11-21, where ann's points of the day before were lost:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:state:last-2-days st:{b}:1:d:last-2-days:2026-11-21
--         st:{b}:1:s:day:2026-11-21 st:{b}:1:s:day:2026-11-20
--   reply {'OK', -1, '0', 0, {'sum', 0, 'ann', '-5', '', '-8', ''}}

local MEMBERS_MIN = 16

local REGISTRY, STATE, TARGET = KEYS[2], KEYS[3], 4
local args = cmsgpack.unpack(ARGV[1])
local layout, kind = args.layout, args.kind

local head = call('HMGET', KEYS[1], 'version', 'moving', 'erased', 'closed_until')
if not is_in_use(head[1], args.generation, args.revision) then return {'STALE'} end
may = head[2] and 0 or args.repair
local ERASING = head[3] and beside_registry(REGISTRY, KIND_ERASING)
-- Whether the initial scores are those of a barrier in the past (lib/past_initial.lua).
local is_past = kind == 'initial' and head[4] and args.ends <= tonumber(head[4])

local entries, entry, place
if kind ~= 'carried' then
  entries = readable_entries(STATE) or {}
  entry, place = entry_at(entries, args.start)
  if not args.drop and not (entry and entry.done) then return {'GONE'} end
end

-- The type of the one key that holds all members of a standing; check.lua reports damage there.
local function members_type(standing)
  local key = layout.hashed and standing.hash or standing.zset
  local found = type_of(key)
  local expected = layout.hashed and 'hash' or 'zset'
  return found, found == expected or found == 'none'
end

local standings = open_standings(layout, {})
local target = standing_at(standings, TARGET)
local terms, absent = {}, {}
for first = TARGET + layout.width, #KEYS, layout.width do
  local term = standing_at(standings, first)
  local found, is_sound = members_type(term)
  if not is_sound then return {'LOST'} end
  if found == 'none' then absent[#absent + 1] = term.zset end
  terms[#terms + 1] = {standing = term, is_there = found ~= 'none'}
end
if #absent > 0 then
  for _, was_there in ipairs(call('SMISMEMBER', REGISTRY, unpack(absent))) do
    if was_there == 1 then return {'LOST'} end
  end
end

-- Drops a derived standing; returns the outcome.
local function drop_target()
  local outcome = removing(entries)
  if outcome ~= REPAIRED then return outcome end
  drop_entry(target)
  if entry then
    table.remove(entries, place)
    call('SET', STATE, cmsgpack.pack(entries))
  end
  return outcome
end

if args.drop then
  differs('dropped', drop_target())
  return {'OK', -1, '0', #absent, unpack(differences)}
end

local target_type, is_sound = members_type(target)
if not is_sound then
  differs('type', drop_target(), target.zset, target_type, layout.hashed and 'hash' or 'zset')
  return {'OK', -1, '0', #absent, unpack(differences)}
end

-- The scores, times and data of the members in each term; a score is false if the term does not list the member.
local function of_terms(ids)
  local scores, times, data = {}, {}, {}
  for index, term in ipairs(terms) do
    if term.is_there then
      scores[index], times[index], data[index] = fetch(term.standing, ids)
    else
      scores[index], times[index], data[index] = {}, {}, {}
    end
  end
  if is_past then scores[2] = scores_in_past(REGISTRY, args.ends, ids, scores[2]) end
  return scores, times, data
end

-- The score (false: not listed), time and data that a member should have; nil if a sum may have been rounded.
local function expected_of(m, scores, times, data)
  local sum, size, is_listed, newest, newest_data = 0, 0, false, nil, nil
  for index = 1, #terms do
    local score = scores[index][m]
    if score then
      sum, size, is_listed = sum + score, size + math.abs(score), true
      -- Initial scores have no time of their own.
      local time = not (kind == 'initial' and index == 2) and times[index][m]
      if time and not newest and (time >= 0 or kind == 'initial') then
        newest, newest_data = time, layout.data and data[index][m]
      end
    end
  end
  if size > SCORE_MAX then return nil end
  if kind ~= 'initial' then return sum ~= 0 and sum, sum ~= 0 and newest or nil, newest_data or '' end
  if not is_listed then return false, nil, '' end
  newest, newest_data = with_initial(args.floor, scores[2][m], newest, newest_data)
  return sum, newest, newest_data or ''
end

local function is_carried(score, own, before)
  if not own and not before then return not score end
  if not score then return false end
  if args.ratio == 0 then return true end
  local carried, share = args.sign * (score - (own or 0)), args.sign * (before or 0)
  if args.ratio == 1000000 then return carried == share end
  -- The share of each event is rounded down, and the product may be rounded, too.
  return carried <= share * args.ratio / 1000000 + 1
end

-- The outcome, once the standing was found to differ.
local dropped = nil
-- Compares members that the walk over the standing itself (0), or over this term, has met.
local function compare(walked, ids)
  if #ids == 0 then return end
  local scores, times, data = fetch(target, ids)
  local term_scores, term_times, term_data = of_terms(ids)
  for m, id in ipairs(ids) do
    -- A member that several of them list is met in several walks; it is compared in the first.
    local is_compared = walked > 0 and scores[m]
    -- The walk over the current initial scores need not have met a past one.
    for index = 1, math.min(walked, #terms) - 1 do is_compared = is_compared or term_scores[index][m] end
    if not is_compared and kind == 'carried' then
      local own, before = term_scores[1][m], term_scores[2] and term_scores[2][m]
      if not is_carried(scores[m], own, before) then
        differs('carried', LEFT, id, shown(scores[m]), shown(own), shown(before))
      end
    elseif not is_compared then
      local score, time, expected_data = expected_of(m, term_scores, term_times, term_data)
      if score ~= nil and (score ~= scores[m] or (layout.hashed and score and time ~= times[m])) then
        dropped = dropped or drop_target()
        differs('sum', dropped, id, shown(scores[m]), shown(times[m]), shown(score), shown(time))
      elseif layout.data and score and data[m] ~= expected_data then
        dropped = dropped or drop_target()
        differs('data', dropped, id, data[m], expected_data)
      end
    end
  end
end

-- Some of the members, without the erased ones that are being removed from one standing after the other, and without lines
-- of erased members (lib/nameless.lua): of derived standings only a sum with initial scores has them.
local function present_of(ids, first, last)
  local some = {unpack(ids, first, math.min(#ids, last))}
  if not ERASING or #some == 0 then return some end
  local kept = {}
  for index, erasing in ipairs(call('HMGET', ERASING, unpack(some))) do
    local is_left_out = kind ~= 'initial' and is_nameless(some[index])
    if not erasing and not is_left_out then kept[#kept + 1] = some[index] end
  end
  return kept
end

local present = 1
for _, term in ipairs(terms) do present = present + (term.is_there and 1 or 0) end
local count = math.max(MEMBERS_MIN, math.floor(args.budget / present))
local walked, cursor, last = args.term, args.cursor, #terms + (is_past and 1 or 0)
while count > 0 and walked <= last and dropped ~= REPAIRED do
  local ids, next_cursor, _
  if walked > #terms then
    ids, next_cursor = scan_fields(past_initial_key(REGISTRY), cursor, count)
  else
    local standing = walked == 0 and target or terms[walked].standing
    ids, _, _, next_cursor = scan_members(standing, cursor, count)
  end
  -- A command takes a limited number of arguments.
  for first = 1, #ids, 500 do compare(walked, present_of(ids, first, first + 499)) end
  count, cursor = count - math.max(1, #ids), next_cursor
  if cursor == '0' then walked = walked + 1 end
end
if dropped == REPAIRED or walked > last then walked = -1 end
return {'OK', walked, cursor, #absent, unpack(differences)}
