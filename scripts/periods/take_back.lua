-- take_back.lua: takes back what members of a shard no longer win in a final period, and counts what is won
-- (lib/rewards.lua). Called after hand_out.lua has handled all who win, and repeated until nothing is left.
-- Uses: lib/slot.lua, lib/rewards.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; KEYS[3] reward lines of the period
-- ARGV[1]  MessagePack of a map:
--   version, lease, revision, walk   as in hand_out.lua
--   after      the last entry of the index that was handled, '' at the beginning
--   count      how many entries one call looks at
--
-- Reply: {'STALE'} as in hand_out.lua | {'OK', how many of these entries are won, the last of them, '' if none is left}
--
-- Example: ann has lost what she had won, and no other member had won anything:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:rewards:day:2026-11-21
--   ARGV  {version='1-1', lease=1, revision=2, walk=2, after='', count=300}  reply {'OK', 0, ''}

require_slot(KEYS[1])
local args = cmsgpack.unpack(ARGV[1])
local rewards, refusal = hold_rewards(KEYS, args)
if refusal then return refusal end

local from = args.after == '' and '[l' or '(' .. args.after
local names = redis.call('ZRANGE', rewards.index, from, '(m', 'BYLEX', 'LIMIT', 0, args.count)
local won = 0
for _, name in ipairs(names) do
  local rule, member = rule_and_member(name)
  local line = load_line(rewards.lines, member)
  if #line.entries > 0 and line.walk ~= args.walk then
    decide_line(rewards, member, line, args.walk, args.revision, {})
  end
  local entry = entry_of(line, rule)
  if entry and (entry.state == 'open' or entry.state == 'claimed') then won = won + 1 end
end
return {'OK', won, #names < args.count and '' or names[#names]}
