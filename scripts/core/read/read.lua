-- read.lua: reads pages, members and subsets of a board's standings, all as of one instant.
--
-- KEYS[1]  board
-- KEYS[2…] named by their index in ARGV[1]: standings (`layout.width` keys each), states of derived series, numbers of
--          events
-- KEYS[#KEYS] registry, with ARGV[2]
--
-- Names in capitals are in src/redis/protocol.rs.
-- ARGV[1]  MessagePack of a map:
--   version, layout, ranking   as in apply.lua
--   standings   list of {standing, state (0 if it isn't derived), start (ms, of its newest period), 1 if it also shows
--               hidden members, otherwise 0, its ranking or nil if that is `ranking`, nil or when it ends (ms): once it is
--               final, it keeps the lines of erased members}
--   erasing     absent, or the index of the key of erasing members: if a standing shows hidden members, too, or ends
--   followed    a number of a hide: hidden lists that have followed the hides up to it are new enough. Absent: they have to
--               be up to date
--   left_out_max, registry   absent unless hidden lists can't be stored: then the script makes those that are behind itself
--               (lib/left_out.lua) if no more than `left_out_max` members of the shard are hidden
--   kept        absent, or {`changed` and the barrier with which answers were given that the caller has kept, the number of
--               entries of each of `standings` then (-1: not known), the indexes of the queries without such an answer}
--   queries     list of
--     {PAGE, index in `standings`, offset, count, member (id, or false)}               a page
--     {BETWEEN, index in `standings`, first, last (scores, or false), offset, count, member (id, or false)}
--                                 a page of the entries from one score to another
--     {AROUND, index in `standings`, score, ahead, count, member (id, or false)}
--                                 a page that begins `ahead` entries before all that have this score or a worse one
--     {PERCENTILE, index in `standings`, p}   the page of one entry: the last listed one with at least this percentile, in
--                                 thousandths of a percent
--     {MEMBER, index in `standings`, member, around (1 or more), index of the one before (0: none)}   a member
--     {SUBSET, index in `standings`, list of members}                                    a subset
--     {AMOUNTS, index in `standings`, list of numbers of events}                          totals of a standing
--     {WITH_DATA, index in `standings`, query}    a page, a member, a subset or a slice, with the data of its entries
--   and of a shard (src/core/read/merge.rs), where a mark is {score, time (a tie key), id} of a member that may be in
--   another shard; an empty id comes before all that have this score:
--     {SPREAD, index in `standings`, from, to, count}     about `count` entries, evenly spread between two positions
--     {SLICE, index in `standings`, mark, before, count}  `before` entries before a mark and `count` from it on
--     {POSITIONS, index in `standings`, list of marks}    how many entries come before each
--
-- ARGV[2]  only for a replica: the id of the process whose data is known to be fresh enough. A replica does not know that
--          its slot is moving, and may have only some of the keys
--
-- Reply: {'STALE'} (another version; on a replica also another process, or a key is missing), or {'OK', the barrier of the
-- shard (`final_until`: ms, '' for none), the field `changed` of the head ('' for none; lib/changed.lua), how many entries
-- each of `standings` has, hidden ones too, 1 if the kept answers still hold, otherwise 0, and an answer to each query, but
-- for those whose kept answers hold}:
--   {INCOMPLETE, start}   a standing that the query needs is not complete
--   {ERASING}             data of erased members that the query would show may remain
--   {UNLISTED, 1 if that is the one before, otherwise 0}   the hidden list of a standing that the query needs is behind
--                         (lib/hidden.lua)
--   {SHORT, 1 or 0, as above}   too many members are hidden: the list has to be widened first (widen_list.lua)
--   page     {total, rank of the first entry, entries, {} (no member) or {rank, score, sorted-set member}}
--   between, around, percentile   as a page, and {…, position of the first entry, number of entries in the range}
--   member   {total} (no member), or
--            {total, position, position of the first entry, its rank, entries, {} or {rank, score} before, how many
--            have a better rank}; if it is after the last listed one, with position -1, the last entries, and instead of
--            that number: score, sorted-set member
--   subset   {total, for each {} (no member) or {position, -1: after the last, rank, score, sorted-set member}}
--   amounts  {total, sum of all scores / 2^32, the rest of it, number of events}
--   spread   {total, number of entries, positions, entries}
--   slice    {total, number of entries before the mark, position of the first, entries}
--   positions {total, positions}
--   with data {total, the answer, the data of its entries in their order, '' for none}
-- Hidden members are left out everywhere (lib/visible.lua). Entries are a flat list of sorted-set members and scores.
-- Scores and sums are text. A member after the last listed one has the rank 0.
--
-- Example: the first page, with bob's own entry, of a board with ties by member:
--   KEYS  st:{b}  st:{b}:1:s:day:2026-11-21
--   ARGV  {version='1-1', …, standings={{2, 0, 0}}, queries={{1, 1, 0, 10, 'bob'}}}
--   reply {'OK', '', '7 4f0c2a9be41d', {2}, 0, {2, 1, {'ann', '-5', 'bob', '-3'}, {2, '-3', 'bob'}}}

if #KEYS < 1 or #ARGV < 1 then return redis.error_reply('ERR read.lua: 1 key or more, 1 or 2 arguments') end
local args = cmsgpack.unpack(ARGV[1])
local head = redis.call('HMGET', KEYS[1], 'version', 'hides', 'final_until', 'changed')
if head[1] ~= args.version then return {'STALE'} end

local barrier, now_changed, counts = head[3] or '', head[4] or '', {}
for index, described in ipairs(args.standings) do counts[index] = redis.call('ZCARD', KEYS[described[1]]) end

local queries, holds = args.queries, false
if args.kept then
  local then_changed, then_barrier, then_counts, rest = unpack(args.kept)
  holds = then_changed == now_changed and then_barrier == barrier
  -- `changed` does not count what expires.
  for index, described in ipairs(args.standings) do
    local is_lost = described[2] > 0 and redis.call('EXISTS', KEYS[described[2]]) == 0
    holds = holds and not is_lost and (then_counts[index] == -1 or then_counts[index] == counts[index])
  end
  if holds then
    for index, query in ipairs(rest) do rest[index] = queries[query] end
    queries = rest
  end
end
local reply = {'OK', barrier, now_changed, counts, holds and 1 or 0}
-- Many calls end here. Creating the functions would cost more than all of this.
if #queries == 0 and not ARGV[2] then return reply end

-- Uses: lib/process.lua, lib/standing.lua, lib/derived.lua, lib/hidden.lua, lib/left_out.lua, lib/visible.lua

local layout = args.layout

-- Whether no key is missing: a key that does not exist is not in the registry either.
local function is_whole()
  local last = #KEYS - 1
  if call('EXISTS', unpack(KEYS, 2, last)) == last - 1 then return true end
  local registry = KEYS[#KEYS]
  for index = 2, last do
    local is_there = call('EXISTS', KEYS[index]) == 1
    if not is_there and call('SISMEMBER', registry, KEYS[index]) == 1 then return false end
  end
  return call('EXISTS', registry) == 1
end

if ARGV[2] and not (ARGV[2] == process_id() and is_whole()) then return {'STALE'} end
load_visible()
if head[2] then
  load_hides()
  local enough = args.followed
  -- Until a list is built from scratch, it may have entries of members that were brought back and forgotten.
  if enough then enough = math.max(enough, tonumber(call('HGET', KEYS[1], 'hides_from') or 0)) end
  open_hides(head[2], args.registry, enough)
end
local left_out = hides and args.left_out_max and ids_of_hidden(args.registry, args.left_out_max)

-- Opens the standings. `is_missing` marks a derived standing that is not complete, `is_behind` one whose hidden list is
-- behind, `is_too_short` one whose list is too short without the hidden members.
local seen, everybody, standings = open_standings(layout, {}), open_standings(layout, {}), {}
for index, described in ipairs(args.standings) do
  local first, state, start, shows_hidden, ranking, ends = unpack(described, 1, 6)
  local standing = standing_at(shows_hidden == 1 and everybody or seen, first)
  if state > 0 then
    local entry = entry_at(derived_entries(KEYS[state]), start)
    standing.is_missing = not (entry and entry.done)
  end
  if hides and shows_hidden ~= 1 then
    standing.is_behind = not is_list_current(standing)
    if standing.is_behind and left_out then
      leave_out(standing, left_out)
      standing.is_behind = false
    end
    standing.is_too_short = is_short(standing)
  end
  standing.start, standing.ranking = start, ranking or args.ranking
  standing.waits_for_erasures = shows_hidden == 1 or (ends and head[3] and ends <= tonumber(head[3]))
  standings[index] = standing
end

local is_erasing

-- Whether data of an erased member that the standing would show may remain.
local function is_unsettled(standing)
  if not standing.waits_for_erasures then return false end
  if is_erasing == nil then is_erasing = call('EXISTS', KEYS[args.erasing]) == 1 end
  return is_erasing
end

-- The answer for a standing that can't be read; nil if it can be. `is_of_before`: it is that of the period before.
local function obstacle(standing, is_of_before)
  if is_unsettled(standing) then return {ERASING} end
  if standing.is_missing then return {INCOMPLETE, number_text(standing.start)} end
  if standing.is_behind then return {UNLISTED, is_of_before and 1 or 0} end
  if standing.is_too_short then return {SHORT, is_of_before and 1 or 0} end
end

local function total_of(standing)
  standing.count = standing.count or visible_total(standing)
  return standing.count
end

-- score (text), position (-1: after the last listed one), sorted-set member; nil if it is not a member, or hidden.
local function find(standing, id)
  local score, member = nil, id
  if layout.hashed then
    local packed = call('HGET', standing.hash, id)
    if not packed then return nil end
    local time, stored = struct.unpack(ENTRY_FORM, packed)
    member, score = prefix_of(layout, time) .. id, number_text(stored)
  else
    score = call('ZSCORE', standing.zset, id)
    if not score then return nil end
  end
  local position = position_of_entry(standing, score, member)
  if position then return score, position, member end
end

-- The rank of an entry at this position with this score.
local function rank_at(standing, position, score)
  if position < 0 then return 0 end
  if standing.ranking == 'ordinal' then return position + 1 end
  return count_ahead(standing, standing.ranking, score) + 1
end

-- Some entries of the list: the rank of the first, 0 if there are none, and the entries.
local function part(standing, from, to)
  local entries = seen_entries(standing, from, to)
  if #entries == 0 then return 0, entries end
  return rank_at(standing, from, entries[2]), entries
end

local answers = {}

answers[PAGE] = function(standing, offset, count, id)
  local first_rank, entries = part(standing, offset, offset + count - 1)
  local own = {}
  if id then
    local score, position, member = find(standing, id)
    if score then own = {rank_at(standing, position, score), score, member} end
  end
  return {total_of(standing), first_rank, entries, own}
end

-- A page that begins at this position and ends before `stop` at the latest; `listed`: how many entries the list has.
local function selected(standing, offset, stop, count, id, listed)
  count = math.min(count, stop - offset)
  if count < 1 then offset, count = listed_of(standing), 1 end
  local page = answers[PAGE](standing, offset, count, id)
  page[5], page[6] = offset, listed
  return page
end

answers[BETWEEN] = function(standing, first, last, offset, count, id)
  local start, stop = first and position_of(standing, number_text(first)) or 0, listed_of(standing)
  if last then stop = math.min(stop, position_of(standing, number_text(last + 1))) end
  return selected(standing, start + offset, stop, count, id, math.max(0, stop - start))
end

answers[AROUND] = function(standing, score, ahead, count, id)
  local listed = listed_of(standing)
  local position = math.min(listed, position_of(standing, number_text(score)))
  return selected(standing, math.max(0, position - ahead), listed, count, id, listed)
end

answers[PERCENTILE] = function(standing, thousandths)
  local others = math.max(0, total_of(standing) - 1)
  local offset = others - math.ceil(thousandths * others / 100000)
  local listed = listed_of(standing)
  if standing.ranking ~= 'ordinal' then
    -- Entries with equal scores have equal percentiles.
    local score = seen_entries(standing, offset, offset)[2]
    if score then offset = math.min(listed, position_of(standing, number_text(score + 1))) - 1 end
  end
  return selected(standing, offset, listed, 1, false, listed)
end

answers[MEMBER] = function(standing, id, around, before)
  local score, position, member = find(standing, id)
  if not score then return {total_of(standing)} end
  local previous = {}
  if before > 0 then
    local standing_before = standings[before]
    local of_before = obstacle(standing_before, true)
    if of_before then return of_before end
    local old_score, old_position = find(standing_before, id)
    if old_score then previous = {rank_at(standing_before, old_position, old_score), old_score} end
  end
  if position < 0 then
    local listed = listed_of(standing)
    local from = math.max(0, listed - around)
    local first_rank, entries = part(standing, from, listed - 1)
    return {total_of(standing), position, from, first_rank, entries, previous, score, member}
  end
  local from = math.max(0, position - around)
  local first_rank, entries = part(standing, from, position + around)
  local better = standing.ranking == 'ordinal' and position or position_of(standing, score)
  return {total_of(standing), position, from, first_rank, entries, previous, better}
end

answers[SUBSET] = function(standing, ids)
  local found = {}
  for index, id in ipairs(ids) do
    local score, position, member = find(standing, id)
    found[index] = score and {position, rank_at(standing, position, score), score, member} or {}
  end
  return {total_of(standing), found}
end

answers[AMOUNTS] = function(standing, counts)
  local high, low, events = 0, 0, 0
  if layout.summed then
    local stored = call('HMGET', standing.total, 'high', 'low')
    local hidden = hidden_entries(standing) or {high = 0, low = 0}
    high, low = (stored[1] or 0) - hidden.high, (stored[2] or 0) - hidden.low
  end
  for _, index in ipairs(counts) do
    for _, count in ipairs(call('HVALS', KEYS[index])) do events = events + count end
  end
  return {total_of(standing), number_text(high), number_text(low), number_text(events)}
end

-- How many of the entries that a standing lists come before a mark. Merging treats entries after those of all shards as
-- absent.
local function position_of_mark(standing, mark)
  local score, time, id = number_text(mark[1]), mark[2], mark[3]
  local member = id ~= '' and prefix_of(layout, time) .. id or nil
  local position, shown = position_of(standing, score, member), standing.layout.shown
  return shown > 0 and math.min(position, shown) or position
end

answers[SPREAD] = function(standing, from, to, count)
  local listed = listed_of(standing)
  to = math.min(to, listed)
  local step, positions, entries = math.max(1, math.ceil((to - from) / count)), {}, {}
  for position = from + math.floor(step / 2), to - 1, step do
    local entry = seen_entries(standing, position, position)
    positions[#positions + 1] = position
    entries[#entries + 1], entries[#entries + 2] = entry[1], entry[2]
  end
  return {total_of(standing), listed, positions, entries}
end

answers[SLICE] = function(standing, mark, before, count)
  local position = position_of_mark(standing, mark)
  local from = math.max(0, position - before)
  local entries = {}
  if position + count > from then
    entries = seen_entries(standing, from, position + count - 1)
  end
  return {total_of(standing), position, from, entries}
end

answers[POSITIONS] = function(standing, marks)
  local positions = {}
  for index, mark in ipairs(marks) do positions[index] = position_of_mark(standing, mark) end
  return {total_of(standing), positions}
end

-- The sorted-set members of an answer, in its order, by the kind of its query.
local shown_by = {}

-- The sorted-set members of a flat list of entries, and `own` if it is one.
local function shown_members(flat, own)
  local members = {}
  for index = 1, #flat, 2 do members[#members + 1] = flat[index] end
  members[#members + 1] = own
  return members
end

shown_by[PAGE] = function(answer) return shown_members(answer[3], answer[4][3]) end
shown_by[BETWEEN], shown_by[AROUND], shown_by[PERCENTILE] = shown_by[PAGE], shown_by[PAGE], shown_by[PAGE]
shown_by[MEMBER] = function(answer) return shown_members(answer[5] or {}, answer[8]) end
shown_by[SLICE] = function(answer) return shown_members(answer[4]) end
shown_by[SUBSET] = function(answer)
  local members = {}
  for _, found in ipairs(answer[2]) do members[#members + 1] = found[4] end
  return members
end

answers[WITH_DATA] = function(standing, query)
  local answer = answers[query[1]](standing, unpack(query, 3))
  -- Something has to be done first.
  if answer[1] < 0 then return answer end
  invariant(layout.data, 'a board whose data is read keeps data')
  local ids = shown_by[query[1]](answer)
  for index, member in ipairs(ids) do ids[index] = string.sub(member, TIE_KEY_BYTES + 1) end
  local data = {}
  if #ids > 0 then data = select(3, fetch(standing, ids)) end
  return {answer[1], answer, data}
end

for index, query in ipairs(queries) do
  local standing = standings[query[2]]
  reply[index + 5] = obstacle(standing) or answers[query[1]](standing, unpack(query, 3))
end
return reply
