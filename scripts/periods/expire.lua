-- expire.lua: lets a shard's data of a period expire at an instant, in bounded steps. The caller repeats the call with the
-- cursor of the reply until that is '0'.
-- Uses: lib/slot.lua, lib/members.lua, lib/keys.lua, lib/capture.lua, lib/standing.lua
--
-- The voters of members come first, in a walk over the members (lib/cursor.lua), so the standing outlives the walk.
--
-- Takes: 4 keys or more, 2 arguments
-- KEYS[1] board, or head of the shard
-- KEYS[2…] the standings of the period (`layout.width` keys each; the first lists all members), and then the number of its
--          events, and its voters
--
-- ARGV[1] MessagePack of a map: version, layout, now (as in apply.lua); standings: how many; expires (ms since the epoch);
--   has_folded: whether the board keeps events (lib/history.lua); by_member: whether voters are counted for each member; of_cohort: whether the standing is that of a cohort;
--   count: about how many members one call looks at
-- ARGV[2] the cursor, '0' at the beginning
--
-- Reply: {'STALE'} | {'OK', cursor, text}
-- Example: KEYS st:{b} st:{b}:1:s:day:2026-11-21 st:{b}:1:turnout:day:2026-11-21 st:{b}:1:voters:day:2026-11-21
--   ARGV {version='1-1', layout={…}, now=…, standings=1, expires=1795910400000, by_member=false, count=300} '0'
--   reply {'OK', '0'}

local BOARD, EVENTS, VOTERS, cursor = KEYS[1], KEYS[#KEYS - 1], KEYS[#KEYS], ARGV[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])

local head = call('HMGET', BOARD, 'version', 'moving')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end

local standings = open_standings(args.layout, {})
-- In terms of the server's clock.
local time = call('TIME')
local expires = number_text(args.expires + time[1] * 1000 + math.floor(time[2] / 1000) - args.now)

-- Sets the expiry of a key that is captured as a whole.
local function expire_whole(kind, key)
  if call('PEXPIREAT', key, expires) == 1 then capture(kind, key) end
end

if args.by_member then
  local ids, _, _, next_cursor = scan_members(standing_at(standings, 2), cursor, args.count)
  for _, id in ipairs(ids) do expire_whole(KIND_MEMBER_VOTERS, voters_of_member(VOTERS, id)) end
  if next_cursor ~= '0' then return {'OK', next_cursor} end
end

-- A copy of any entry carries the expiry of all.

local function expire_folded(key)
  local member = call('HRANDFIELD', key)
  if not member then return end
  call('PEXPIREAT', key, expires)
  capture(KIND_FOLDED, key, member)
end

local function expire_standing(standing)
  if args.has_folded then expire_folded(standing.zset .. ':' .. KIND_FOLDED) end
  local first = call('ZRANGE', standing.zset, 0, 0)[1]
  if not first then return end
  capture(standing.kind, standing.zset, args.layout.prefixed and string.sub(first, TIE_KEY_BYTES + 1) or first)
  for _, key in ipairs(keys_of(standing)) do call('PEXPIREAT', key, expires) end
  for _, key in ipairs(hidden_keys_of(standing.zset)) do call('PEXPIREAT', key, expires) end
  for _, kind in ipairs(args.of_cohort and {KIND_SEATS, KIND_DECIDED} or {}) do
    call('PEXPIREAT', standing.zset .. ':' .. kind, expires)
  end
end

for index = 0, args.standings - 1 do expire_standing(standing_at(standings, 2 + index * args.layout.width)) end
expire_whole(KIND_TURNOUT, EVENTS)
expire_whole(KIND_VOTERS, VOTERS)
return {'OK', '0'}
