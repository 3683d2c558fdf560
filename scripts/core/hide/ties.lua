-- ties.lua: finds the ids between which a member of another shard would be among a shard's entries with its score and time.
-- Uses: lib/standing.lua, lib/visible.lua, lib/nameless.lua
--
-- Takes: 2 keys or more, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2…] sorted sets of standings
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   prefixed   whether members have tie keys (lib/standing.lua)
--   member     its id
--   entries    of each standing: {stored score, time (lib/standing.lua), nil for none} of the member
--
-- Reply: {'STALE'} | {'OK', of each standing: the id before, the id after}: '' for none. Hidden members count as well
--
-- Example: bob, where al and cid have his score and time:
--   KEYS st:{b:2:0:1} st:{b:2:0:1}:1:s:day:2026-11-21
--   ARGV {version='1-1', prefixed=false, member='bob', entries={{-5}}}  reply {'OK', 'al', 'cid'}

local args = cmsgpack.unpack(ARGV[1])
load_visible()

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end
local reply = {'OK'}
for index, entry in ipairs(args.entries) do
  local standing, score = {zset = KEYS[index + 1]}, entry[1]
  local prefix = prefix_of(args, entry[2])
  local rank = count_before(standing.zset, number_text(score), prefix .. args.member)
  reply[#reply + 1] = tied_id(standing, rank - 1, score, prefix) or ''
  reply[#reply + 1] = tied_id(standing, rank, score, prefix) or ''
end
return reply
