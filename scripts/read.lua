-- read.lua: pages, members and subsets of a board's standings, all as of one instant.
--
-- KEYS[1]  board
-- KEYS[2…] named by their index in ARGV[1]: standings (`layout.width` keys each), states of rolling windows
--
-- ARGV[1]  MessagePack of a map:
--   version, layout, ranking   as in apply.lua
--   standings   list of {standing, state (0 if it isn't rolling), start (ms, of its newest period)}
--   queries     list of
--     {1, place in `standings`, offset, count, member (id, or false)}               a page
--     {2, place in `standings`, member, around (1 or more), place of the one before (0: none)}   a member
--     {3, place in `standings`, list of members}                                    a subset
--
-- Reply: {'STALE'}, or {'OK', an answer to each query}:
--   {-1, start}   a standing that it needs is not complete
--   page     {total, rank of the first entry, entries, {} (not listed) or {rank, score, sorted-set member}}
--   member   {total} (not listed), or
--            {total, place from 0, place of the first entry, its rank, entries, {} or {rank, score} before}
--   subset   {total, for each member {} (not listed) or {place from 0, rank, score, sorted-set member}}
-- Entries are a flat list of sorted-set members and scores. Scores are text.
--
-- Example: the first page, with bob's own entry, of a board with ties by member:
--   KEYS  st:{b}  st:{b}:1:day:2026-11-21
--   ARGV  {version='1-1', …, standings={{2, 0, 0}}, queries={{1, 1, 0, 10, 'bob'}}}
--   reply {'OK', {2, 1, {'ann', '-5', 'bob', '-3'}, {2, '-3', 'bob'}}}

local PAGE, MEMBER, SUBSET = 1, 2, 3

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR read.lua: 2 keys or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking = args.layout, args.ranking

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end

-- Opens the standings; `is_missing` marks one of a rolling window that is not complete.
local standings = {}
for place, described in ipairs(args.standings) do
  local first, state, start = unpack(described)
  local standing = standing_at(layout, first)
  if state > 0 then
    local entry = entry_at(rolling_entries(KEYS[state]), start)
    standing.is_missing = not (entry and entry.done)
  end
  standing.start = start
  standings[place] = standing
end

local function total_of(standing)
  standing.total = standing.total or call('ZCARD', standing.zset)
  return standing.total
end

-- place (from 0), score (text), sorted-set member; nil where the member is not listed.
local function find(standing, id)
  local member, score = id, nil
  if layout.prefixed then
    local packed = call('HGET', standing.hash, id)
    if not packed then return nil end
    member, score = string.sub(packed, 1, 6) .. id, number_text(struct.unpack('>d', packed, 7))
  end
  local place = call('ZRANK', standing.zset, member)
  if not place then return nil end
  return place, score or call('ZSCORE', standing.zset, member), member
end

-- The rank of an entry at this place with this score.
local function rank_at(standing, place, score)
  if ranking == 'ordinal' then return place + 1 end
  return count_ahead(standing, ranking, score) + 1
end

-- A part of the list: the rank of its first entry, 0 if it is empty, and the entries.
local function part(standing, from, to)
  local entries = call('ZRANGE', standing.zset, from, to, 'WITHSCORES')
  if #entries == 0 then return 0, entries end
  return rank_at(standing, from, entries[2]), entries
end

local answers = {}

answers[PAGE] = function(standing, offset, count, id)
  local first_rank, entries = part(standing, offset, offset + count - 1)
  local own = {}
  if id then
    local place, score, member = find(standing, id)
    if place then own = {rank_at(standing, place, score), score, member} end
  end
  return {total_of(standing), first_rank, entries, own}
end

answers[MEMBER] = function(standing, id, around, before)
  local place = find(standing, id)
  if not place then return {total_of(standing)} end
  local previous = {}
  if before > 0 then
    local standing_before = standings[before]
    if standing_before.is_missing then return {-1, number_text(standing_before.start)} end
    local old_place, old_score = find(standing_before, id)
    if old_place then previous = {rank_at(standing_before, old_place, old_score), old_score} end
  end
  local from = math.max(0, place - around)
  local first_rank, entries = part(standing, from, place + around)
  return {total_of(standing), place, from, first_rank, entries, previous}
end

answers[SUBSET] = function(standing, ids)
  local found = {}
  for index, id in ipairs(ids) do
    local place, score, member = find(standing, id)
    found[index] = place and {place, rank_at(standing, place, score), score, member} or {}
  end
  return {total_of(standing), found}
end

local reply = {'OK'}
for index, query in ipairs(args.queries) do
  local standing = standings[query[2]]
  if standing.is_missing then
    reply[index + 1] = {-1, number_text(standing.start)}
  else
    reply[index + 1] = answers[query[1]](standing, unpack(query, 3))
  end
end
return reply
