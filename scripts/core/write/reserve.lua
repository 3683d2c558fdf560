-- reserve.lua: takes from quotas for events that are applied in other slots, and notes how to undo that.
-- Uses: lib/standing.lua, lib/quota.lua
--
-- The script runs in the slot of the counts, on boards of several shards. There an event takes three steps. This script
-- reserves what the event would take from each quota, in the slot of the counts. apply.lua applies the event in its
-- member's slot. settle.lua keeps what was reserved if the event was taken, and otherwise gives it back. The script refuses
-- an event only for what others have taken. If it depends on open reservations whether a quota is used up, the event has to
-- wait.
--
-- Takes: 4 keys or more, 1 argument
-- KEYS[1]  board      head of the shard's counts (src/redis/keys.rs has the form of every key)
-- KEYS[2]  registry   set: names of the keys of quotas that don't expire
-- KEYS[3]  reserved   hash: token -> note, MessagePack of a map: at (ms since the epoch, by the server's clock), tag,
--                     record and void (as below), taken = list of {pool, amount (text), its entry in the log, '': a sum}
-- KEYS[4]  reserving  hash: pool -> how many of its reservations are open
-- KEYS[5…] pools, named by their index in ARGV[1] (lib/quota.lua)
--
-- ARGV[1]  MessagePack of a map: version and now (as in apply.lua); rules, see lib/quota.lua; and the events in columns:
--   requests    numbers of the events' requests: no event overtakes a waiting one of the same request
--   tokens      texts that identify the reservations from then on
--   instants    ms since the epoch
--   uses        for each a list; see lib/quota.lua
--   asks        whether the reply has what remains of the quotas
--   tags        the tag of the member's shard
--   records     the key in that shard under which the event is remembered if it is taken
--   voids       the key in that shard of the mark that voids its token (void.lua)
--
-- Reply: {'STALE'}, or {'OK', one for each event}:
--   {RESERVED, remaining…}   reserved; on request, what remains of each of its uses, as text
--   {USED_UP, quota, ms, taken, allowed, amount}   this quota has too little left, as in apply.lua
--   {WAITS, quota}           whether this quota is used up depends on open reservations: nothing done, ask again
-- The codes are in src/redis/protocol.rs.
-- Example: two events of a voter whose quota has one vote left: {'OK', {1}, {3, 1}}, and later for the second one
--   {'OK', {2, 1, '0'}}

local BOARD, REGISTRY, NOTES, RESERVING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local args = cmsgpack.unpack(ARGV[1])
local now = args.now

if call('HGET', BOARD, 'version') ~= args.version then return {'STALE'} end

local time = call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)

local counts = open_counts(args.rules, args.uses)

local function each_pool(uses, visit)
  for place, rule in counts.next_use, uses do
    for index = place + 3, place + 2 + #rule.allowances do
      if uses[index] > 0 then visit(KEYS[uses[index]]) end
    end
  end
end

-- How many reservations of each pool are open, if any; and the pools for which that number has changed.
local reserving, changed = {}, {}

local function load_reserving()
  local pools = {}
  for _, uses in ipairs(args.uses) do
    each_pool(uses, function(pool) pools[#pools + 1] = pool end)
  end
  if #pools == 0 then return end
  for index, count in ipairs(call('HMGET', RESERVING, unpack(pools))) do
    if count then reserving[pools[index]] = tonumber(count) end
  end
end

-- The pools that waiting events of the current request might take from.
local request, blocked = nil, {}

local function is_blocked(uses)
  local found = false
  each_pool(uses, function(pool) found = found or blocked[pool] end)
  return found
end

local function wait(uses, quota)
  each_pool(uses, function(pool) blocked[pool] = true end)
  return {WAITS, quota}
end

-- What is written at the end: new notes.
local notes = {}

local function note(e, pools)
  local uses, taken = args.uses[e], {}
  for place, rule in counts.next_use, uses do
    local pool, amount = pools[#taken + 1], uses[place + 1]
    local entry = rule.log > 0 and counts.log_entry(args.instants[e], args.tokens[e], amount) or ''
    taken[#taken + 1] = {pool, number_text(amount), entry}
    reserving[pool] = (reserving[pool] or 0) + 1
    changed[pool] = true
  end
  local kept = {at = at, tag = args.tags[e], record = args.records[e], void = args.voids[e], taken = taken}
  notes[#notes + 1], notes[#notes + 2] = args.tokens[e], cmsgpack.pack(kept)
end

local function reserve(e)
  local uses, instant = args.uses[e], args.instants[e]
  if args.requests[e] ~= request then request, blocked = args.requests[e], {} end
  if is_blocked(uses) then return wait(uses, uses[1]) end
  local pools, refused, frees = counts.choose_pools(uses, instant, reserving)
  if not pools and not frees then return wait(uses, uses[refused]) end
  if not pools then return {USED_UP, unpack(counts.shortage_of(uses, refused, frees, instant))} end
  local remaining = args.asks[e] and counts.remaining_of(uses, instant) or {}
  counts.take_from(pools, uses, instant, args.tokens[e])
  note(e, pools)
  return {RESERVED, unpack(remaining)}
end

load_reserving()
local reply = {'OK'}
for e = 1, #args.tokens do reply[e + 1] = reserve(e) end

counts.flush(REGISTRY, now)
if #notes > 0 then
  local open = {}
  for pool in pairs(changed) do open[#open + 1], open[#open + 2] = pool, number_text(reserving[pool]) end
  call('HSET', RESERVING, unpack(open))
  call('HSET', NOTES, unpack(notes))
  call('SADD', REGISTRY, NOTES, RESERVING)
end
return reply
