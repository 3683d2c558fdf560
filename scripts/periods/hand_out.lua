-- hand_out.lua: notes what some members of a shard win in a final period (lib/rewards.lua).
-- Uses: lib/slot.lua, lib/rewards.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; KEYS[3] reward lines of the period
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   lease      the number of the caller's lease of the board's rewards
--   revision   of the result that this walk leads to
--   walk       the number of the walk
--   members    list of {member, rank, score, list of the indexes of the rules by which it wins}. Other rules are not won
--
-- Reply: {'STALE'}: another version, or a later lease is known | {'OK'}
--
-- Example: ann wins by the first rule:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:rewards:day:2026-11-21
--   ARGV  {version='1-1', lease=1, revision=1, walk=1, members={{'ann', 1, 30, {0}}}}  reply {'OK'}

require_slot(KEYS[1])
local args = cmsgpack.unpack(ARGV[1])
local rewards, refusal = hold_rewards(KEYS, args)
if refusal then return refusal end

for _, winner in ipairs(args.members) do
  local member, rank, score, rules = unpack(winner)
  local won = {}
  for _, rule in ipairs(rules) do won[rule] = true end
  decide_line(rewards, member, load_line(rewards.lines, member), args.walk, args.revision, won, rank, score)
end
return {'OK'}
