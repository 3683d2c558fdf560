-- seat.lua: seats members in cohorts whose data is in this shard, and lists those that have joined. Repeating the call has
-- no effect: a seated member keeps its seat, and a listed one its entry.
-- Uses: lib/slot.lua, lib/standing.lua, lib/erasures.lua, lib/hidden.lua, lib/follow.lua, lib/return.lua, lib/periods.lua, lib/expiry.lua
--
-- Before the call the member's home shard knows the seat, and take_seat.lua has suggested it to no other member. So it is
-- free, unless it was that of an erased member that is not removed here yet.
--
-- Takes: 4 keys or more, 1 argument
-- KEYS[1] head of the shard; KEYS[2] registry
-- KEYS[3…] of each cohort: its seats: hash, member -> when it joined (microseconds since the epoch) and its opening score,
--          as stored in a standing, separated by a space; and then its standing (`layout.width` keys)
-- ARGV[1]  MessagePack of a map:
--   version  as in apply.lua
--   now      ms since the epoch
--   layout   see lib/standing.lua
--   names    the members
--   cohorts  list of {key index of its seats, how many seats it has, when its period ends, when its keys expire (ms since
--            the epoch; 0: never), numbers of members}
-- and in columns:
--   taken     when the seats were taken, tie keys
--   openings  stored scores
--   joined    when they join, microseconds since the epoch
--   listed    when members that join by themselves reach their opening score, tie keys; 0 for members that an event seats
--
-- Reply: {'STALE'} | {'OK', for each member a list}:
--   {'OK', when it joined: microseconds since the epoch, text; whether this call has listed it (0 | 1)}
--   {'FULL'}             all seats of the cohort are taken: nothing done, an erased member is still being removed
--   {'CLOSED', barrier}  refused: the barrier of the shard (close_shard.lua) is not before the end of the period: ms, text
--   {'ERASED', instant}  refused: the seat was not taken after the last erasure of the member, at this instant: a tie key,
--                        text
--   {'ERASING'}          data of the erased member remains: remove it (forget.lua)
-- Example: KEYS st:{b:16:7} st:{b:16:7}:1:keys and of the cohort 1-17, whose sorted set is
--   st:{b:16:7}:1:s:week:2026-11-16/1-17: …:seats … …:members …:total
--   ARGV {version='1-1', …, names={'ann'}, cohorts={{3, 100, …, 0, {1}}}, taken={4004294400000000}, openings={-20},
--   joined={1795305600000000}, listed={4004294400000000}}
--   reply {'OK', {'OK', '1795305600000000', 1}}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local names, now = args.names, args.now

local head = call('HMGET', HEAD, 'version', 'used', 'hides', 'erased', 'closed_until')
if head[1] ~= args.version then return {'STALE'} end
if head[3] or head[4] then load_hides() end
if head[3] then open_hides(head[3], REGISTRY) end
local erasures = head[4] and load_erasures(REGISTRY, head[4], names) or {}
local barrier = head[5]
local standings = open_standings(args.layout, names)
local reply, has_listed = {'OK'}, false

-- A cohort as the script works on it: its stored seats by member, and how many there are.
local function open_cohort(cohort)
  local first, size, ends, expires, members = unpack(cohort)
  local opened = {
    key = KEYS[first], size = size, expires = expires, standing = standing_at(standings, first + 1), seats = {},
    is_closed = barrier and tonumber(barrier) >= ends,
  }
  local ids = {}
  for index, m in ipairs(members) do ids[index] = names[m] end
  for index, seat in ipairs(call('HMGET', opened.key, unpack(ids))) do opened.seats[ids[index]] = seat or nil end
  opened.count = call('HLEN', opened.key)
  load(opened.standing, members)
  return opened
end

-- Seats a member, for the first time or again.
local function sit_down(cohort, m)
  local name = names[m]
  if not cohort.seats[name] then cohort.count = cohort.count + 1 end
  cohort.seats[name] = number_text(args.joined[m]) .. ' ' .. number_text(args.openings[m])
  call('HSET', cohort.key, name, cohort.seats[name])
  if cohort.count == 1 then keep_until(REGISTRY, cohort.key, cohort.expires, now) end
end

local function seat(cohort, m)
  local erasure, is_listed = erasures[m], cohort.standing.score[m]
  local joins = args.listed[m] > 0 and not is_listed
  if joins or not cohort.seats[names[m]] then
    if cohort.is_closed then return {'CLOSED', barrier} end
    if erasure and erasure.is_pending then return {'ERASING'} end
    if erasure and args.taken[m] <= erasure.instant then return {'ERASED', number_text(erasure.instant)} end
    if not cohort.seats[names[m]] and cohort.count >= cohort.size then return {'FULL'} end
    sit_down(cohort, m)
  end
  if joins then
    if erasure then return_hide(HEAD, REGISTRY, erasure, names[m], now) end
    set(cohort.standing, m, args.openings[m], args.listed[m])
    has_listed = true
  end
  return {'OK', string.match(cohort.seats[names[m]], '^%d+'), joins and 1 or 0}
end

for _, arg in ipairs(args.cohorts) do
  local cohort = open_cohort(arg)
  for _, m in ipairs(arg[5]) do reply[m + 1] = seat(cohort, m) end
  if flush(cohort.standing) then
    for _, key in ipairs(keys_of(cohort.standing)) do keep_until(REGISTRY, key, cohort.expires, now) end
    load_periods()
    note_period(REGISTRY, cohort.standing.zset)
  end
end
if has_listed and head[2] ~= args.version then call('HSET', HEAD, 'used', args.version) end
return reply
