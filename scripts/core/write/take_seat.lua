-- take_seat.lua: suggests cohorts of a tier to some members for a period. A cohort is suggested to at most as many members
-- as it has seats. The newest one is filled before the next is opened; late in the period, seats given back in others, too.
-- Uses: lib/slot.lua, lib/keys.lua, lib/standing.lua, lib/expiry.lua
--
-- A suggestion is remembered: later calls for the same member return the same, unless it was given back (give_back.lua).
--
-- Takes: 4 keys, 1 argument
-- KEYS[1] head of the shard of the tier; KEYS[2] registry
-- KEYS[3] tiers: hash: `taken`: how many seats were given out, one cohort after the other; `free`: the numbers of the
--         cohorts in which seats were given back, separated by spaces
-- KEYS[4] taking: hash, member -> the number of the cohort that was suggested to it
-- ARGV[1] MessagePack of a map:
--   version  as in apply.lua
--   now      ms since the epoch
--   size     how many seats a cohort has
--   is_late  whether free seats in any cohort are given out first
--   ends     when the period ends, ms since the epoch
--   expires  when the keys expire, ms since the epoch, 0: never
--   names    the members
--
-- Reply: {'STALE'} | {'CLOSED'} the period is closed in this shard: nothing done
--   | {'OK', for each member the number of the cohort; 0: data of the erased member remains}
-- Example: KEYS st:{b:16:5} st:{b:16:5}:1:keys st:{b:16:5}:1:tiers:week:2026-11-16/1 st:{b:16:5}:1:taking:week:2026-11-16/1
--   ARGV {version='1-1', now=…, size=100, is_late=false, ends=…, expires=0, names={'ann'}}  reply {'OK', 17}

local HEAD, REGISTRY, TIERS, TAKING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local names = args.names

local head = call('HMGET', HEAD, 'version', 'erased', 'closed_until')
if head[1] ~= args.version then return {'STALE'} end
if head[3] and tonumber(head[3]) >= args.ends then return {'CLOSED'} end
local erasing = head[2] and call('HMGET', beside_registry(REGISTRY, KIND_ERASING), unpack(names)) or {}

local stored = call('HMGET', TIERS, 'taken', 'free')
local taken, free = tonumber(stored[1] or 0), {}
for number in string.gmatch(stored[2] or '', '%d+') do free[#free + 1] = tonumber(number) end

-- The number of a cohort that has room.
local function take()
  for index, number in ipairs(free) do
    if args.is_late or number * args.size >= taken then return table.remove(free, index) end
  end
  taken = taken + 1
  return math.ceil(taken / args.size)
end

local numbers, reply, count = {}, {'OK'}, 0
for m, number in ipairs(call('HMGET', TAKING, unpack(names))) do numbers[names[m]] = tonumber(number or nil) end
for m, name in ipairs(names) do
  if not erasing[m] and not numbers[name] then
    numbers[name], count = take(), count + 1
    call('HSET', TAKING, name, numbers[name])
  end
  reply[m + 1] = not erasing[m] and numbers[name] or 0
end
if count == 0 then return reply end
call('HSET', TIERS, 'taken', number_text(taken), 'free', table.concat(free, ' '))
for index, key in ipairs({TIERS, TAKING}) do
  -- A hash that is emptied is deleted, and its time to live with it.
  local is_new = index == 1 and not stored[1] or index == 2 and call('HLEN', TAKING) == count
  if is_new then keep_until(REGISTRY, key, args.expires, args.now) end
end
return reply
