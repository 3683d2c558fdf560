-- take_back.lua: takes back what members of a shard do not win any more in a final period, and counts what is won
-- (lib/rewards.lua). The caller repeats the call until nothing is left, when hand_out.lua has come to all who win.
--
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; KEYS[3] reward lines of the period
-- ARGV[1]  MessagePack of a map:
--   version, lease, revision, walk   as in hand_out.lua
--   after      the last entry of the index that the caller has come to, '' at the beginning
--   count      how many entries one call looks at
--
-- Reply: {'STALE'} | {'SUPERSEDED'} | {'OK', how many of these entries are won, the last of them, '' if none is left}
--
-- Example: ann has lost what she had won, and nobody else had won anything:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:rewards:day:2026-11-21
--   ARGV  {version='1-1', lease=1, revision=2, walk=2, after='', count=300}  reply {'OK', 0, ''}

if #KEYS ~= 3 or #ARGV ~= 1 then return redis.error_reply('ERR take_back.lua: 3 keys, 1 argument') end
local HEAD, rewards = KEYS[1], rewards_of(KEYS[2], KEYS[3])
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'rewards_lease')
if head[1] ~= args.version then return {'STALE'} end
if not hold_rewards(HEAD, head[3], args.lease) then return {'SUPERSEDED'} end
if head[2] then start_capture(head[2]) end

-- How many bytes stand before the member in the name of an entry, and where the index of the rule stands.
local PREFIX, RULE = 18, {2, 3}
local from = args.after == '' and '[l' or '(' .. args.after
local names = redis.call('ZRANGE', rewards.index, from, '(m', 'BYLEX', 'LIMIT', 0, args.count)
local won = 0
for _, name in ipairs(names) do
  local member, rule = string.sub(name, PREFIX + 1), tonumber(string.sub(name, RULE[1], RULE[2]))
  local line = load_line(rewards.lines, member)
  if #line.entries > 0 and line.walk ~= args.walk then
    decide_line(rewards, member, line, args.walk, args.revision, {})
  end
  for _, entry in ipairs(line.entries) do
    if entry.rule == rule and (entry.state == 'open' or entry.state == 'claimed') then won = won + 1 end
  end
end
return {'OK', won, #names < args.count and '' or names[#names]}
