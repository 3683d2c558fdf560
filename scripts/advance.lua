-- advance.lua: takes one standing of a rolling window a bounded step nearer to complete.
--
-- Begins the standing if it isn't there, and is called again until the reply is DONE. Any number of
-- callers may do so at once, and any of them may stop half-way: all there is to know lies in the state.
--
-- A rolling standing is a sum of terms. If the one before it is complete, it is carried on from that:
--     S(i) = R(i) + S(i-1) - R(i-N)
-- and otherwise it is built from its periods: S(i) = R(i) + … + R(i-N+1). The members of every term are
-- walked in the order of their sorted set, and each gets its sum. A member that has an event meanwhile may
-- change its place and be missed by the walk; apply.lua notes it in `todo`, and `todo` is worked off at the
-- end, in the same step that makes the standing complete.
--
-- KEYS[1]  board, KEYS[2] registry, KEYS[3] state of the rolling window (lib/rolling.lua)
-- KEYS[4…] the standing's keys (`layout.width`), its todo set, and then the standings of the periods
--          R(i), R(i-1), … R(i-N), newest first, `layout.width` keys each
--
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   layout     see lib/standing.lua
--   now        ms since the epoch
--   start, oldest   ms: where its newest and its oldest period begin
--   before     ms: where R(i-N) begins
--   previous   ms: where the newest period of S(i-1) begins
--   periods    N
--   keep_from  ms: standings from this `start` on are kept; older ones are dropped when they
--   cache_ms   ms: have not been needed for so long, or
--   cache_max  are more than so many
--   budget     how many members × terms one call may look at
--
-- Reply: {'DONE'} | {'MORE'} | {'STALE'}
--
-- Example: last-3-days at 2026-11-21, carried on from the day before:
--   KEYS  st:{b}  st:{b}:1:keys  st:{b}:1:last-3-days  st:{b}:1:last-3-days:2026-11-21  …:todo
--         st:{b}:1:day:2026-11-21  …20  …19  …18
--   reply {'MORE'} while members are left, then {'DONE'}

local MEMBERS_MIN = 16

if #KEYS < 6 or #ARGV ~= 1 then return redis.error_reply('ERR advance.lua: 6 keys or more, 1 argument') end
local BOARD, REGISTRY, STATE, TARGET = KEYS[1], KEYS[2], KEYS[3], 4
local args = cmsgpack.unpack(ARGV[1])
local layout = args.layout
local TODO = KEYS[TARGET + layout.width]
local PERIODS = TARGET + layout.width + 1

if call('HGET', BOARD, 'version') ~= args.version then return {'STALE'} end

-- The standing of the period that lies `back` periods before the newest.
local function period(back)
  return standing_at(layout, PERIODS + back * layout.width)
end

local function drop(entry)
  call('UNLINK', entry.zset, entry.todo)
  if entry.hash then call('UNLINK', entry.hash) end
  if entry.dense then call('UNLINK', entry.dense) end
end

-- Drops what nobody needs: old standings that were built for a read, once they are unused or too many.
local function retire(entries)
  local needed = {[args.previous] = true}
  for _, entry in ipairs(entries) do
    if not entry.done and entry.from then needed[entry.from] = true end
  end
  table.sort(entries, function(a, b) return a.used_at > b.used_at end)
  local kept, cached = {}, 0
  for _, entry in ipairs(entries) do
    local is_live = entry.start >= args.keep_from or needed[entry.start]
    if not is_live then cached = cached + 1 end
    if is_live or (cached <= args.cache_max and entry.used_at + args.cache_ms > args.now) then
      table.insert(kept, entry)
    else
      drop(entry)
    end
  end
  return kept
end

local function begin(entries)
  local target, newest = standing_at(layout, TARGET), period(0)
  local entry = {
    start = args.start, oldest = args.oldest, used_at = args.now, done = false,
    zset = target.zset, hash = target.hash, dense = target.dense, todo = TODO,
    walk = {term = 1}, terms = {{zset = newest.zset, hash = newest.hash, sign = 1}},
  }
  local function add_term(standing, sign)
    table.insert(entry.terms, {zset = standing.zset, hash = standing.hash, sign = sign})
  end
  local previous = entry_at(entries, args.previous)
  if previous and previous.done then
    entry.from, entry.depends = previous.start, args.before
    add_term(previous, 1)
    add_term(period(args.periods), -1)
  else
    entry.depends = args.oldest
    for back = 1, args.periods - 1 do add_term(period(back), 1) end
  end
  for _, key in ipairs({STATE, TODO, entry.zset, entry.hash or STATE, entry.dense or STATE}) do
    call('SADD', REGISTRY, key)
  end
  return entry
end

-- The numbers of members, by their ids.
local numbers = {}

local function number_of(id)
  local m = numbers[id]
  if not m then
    m = #names + 1
    names[m], numbers[id] = id, m
  end
  return m
end

-- The time of a member whose sum in the standing before is zero: of its newest period.
local function newest_time(m)
  for back = 1, args.periods - 1 do
    local standing = period(back)
    load(layout, standing, {m})
    if standing.score[m] then return standing.time[m] end
  end
end

-- Gives each of these members its sum in the standing.
local function settle(terms, target, members)
  for _, term in ipairs(terms) do load(layout, term.standing, members) end
  for _, m in ipairs(members) do
    local sum, time = 0, nil
    for _, term in ipairs(terms) do
      local standing = term.standing
      local score = standing.score[m]
      if score then
        sum = sum + term.sign * score
        if term.sign > 0 and not time then time = standing.time[m] end
      end
    end
    if sum == 0 then
      if target.score[m] then set(target, m, false, nil) end
    else
      if layout.hashed and not time then time = newest_time(m) end
      set(target, m, sum, time)
    end
  end
end

-- The next members of a term behind the walk's place. If the last one seen has moved, the walk goes back to
-- the first of its old score: to see a member twice does no harm.
local function next_members(term, walk, count)
  local from = 0
  if walk.member then
    local rank = call('ZRANK', term.zset, walk.member)
    if rank and call('ZSCORE', term.zset, walk.member) == walk.score then
      from = rank + 1
    else
      from = call('ZCOUNT', term.zset, '-inf', '(' .. walk.score)
    end
  end
  local flat = call('ZRANGE', term.zset, from, from + count - 1, 'WITHSCORES')
  local members, standing = {}, term.standing
  for index = 1, #flat, 2 do
    local id, time = flat[index], nil
    if layout.prefixed then
      time, id = struct.unpack('>I6', id), string.sub(id, 7)
    end
    local m = number_of(id)
    members[#members + 1] = m
    -- What the walk has seen need not be loaded.
    if layout.prefixed or not layout.hashed then note_stored(standing, m, tonumber(flat[index + 1]), time) end
  end
  return members, flat[#flat - 1], flat[#flat]
end

-- Walks on by at most `count` members; returns how many are left of `count`.
local function walk_on(entry, target, count)
  while count > 0 and entry.walk.term <= #entry.terms do
    local walk = entry.walk
    local members, member, score = next_members(entry.terms[walk.term], walk, count)
    if #members < count then
      entry.walk = {term = walk.term + 1}
    else
      walk.member, walk.score = member, score
    end
    count = count - #members
    -- Who is listed already has its exact sum, or a note in `todo`.
    load(layout, target, members)
    local missing = {}
    for _, m in ipairs(members) do
      if not target.score[m] then missing[#missing + 1] = m end
    end
    settle(entry.terms, target, missing)
  end
  return count
end

local entries = rolling_entries(STATE)
local entry, place = entry_at(entries, args.start)
if entry and entry.done then
  if entry.used_at + args.cache_ms / 2 < args.now then
    entry.used_at = args.now
    call('SET', STATE, cmsgpack.pack(entries))
  end
  return {'DONE'}
end
if entry and entry.from and not (entry_at(entries, entry.from) or {}).done then
  drop(entry)
  table.remove(entries, place)
  entry = nil
end
if not entry then
  entries = retire(entries)
  entry = begin(entries)
  table.insert(entries, entry)
end

local target = open_standing(entry.zset, entry.hash, entry.dense)
for _, term in ipairs(entry.terms) do term.standing = open_standing(term.zset, term.hash, nil) end
local count = math.max(math.min(MEMBERS_MIN, args.budget), math.floor(args.budget / #entry.terms))
count = walk_on(entry, target, count)
if count > 0 then
  local members = {}
  for index, id in ipairs(call('SPOP', TODO, count)) do members[index] = number_of(id) end
  load(layout, target, members)
  settle(entry.terms, target, members)
  if #members < count then
    entry.done, entry.terms, entry.depends, entry.from, entry.walk = true, nil, nil, nil, nil
  end
end
flush(layout, target)
for _, term in ipairs(entry.terms or {}) do term.standing = nil end
call('SET', STATE, cmsgpack.pack(entries))
return {entry.done and 'DONE' or 'MORE'}
