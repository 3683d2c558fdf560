-- read_rewards.lua: reads some of what members of a shard have won in a final period (lib/rewards.lua).
-- Uses: lib/keys.lua, lib/rewards.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; KEYS[3] reward lines of the period
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   from, to   the range of the index, as ZRANGE … BYLEX takes it
--   count      how many entries of it at most
--   member     absent, or whose entries are asked for; then there is no range
--
-- Reply: {'STALE'} | {'OK', {name in the index, what it stands for, …}}: an entry as MessagePack, or a change. Without the
--   names if a member's entries are asked for
--
-- Example: ann has won by the first rule:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:rewards:day:2026-11-21
--   ARGV  {version='1-1', from='[l', to='(m', count=100}  reply {'OK', {'l00000000000000001ann', …}}

local HEAD, LINES, INDEX = KEYS[1], KEYS[3], index_of_rewards(KEYS[2], KEYS[3])
local args = cmsgpack.unpack(ARGV[1])

if redis.call('HGET', HEAD, 'version') ~= args.version then return {'STALE'} end

local found = {}

local function show(name, value)
  found[#found + 1], found[#found + 2] = name, value
end

if args.member then
  for _, entry in ipairs(load_line(LINES, args.member).entries) do
    if entry.state ~= 'lost' then show('', cmsgpack.pack(entry)) end
  end
  return {'OK', found}
end

-- What a name of the index stands for.
local function entry_named(name)
  local rule, member = rule_and_member(name)
  local entry = entry_of(load_line(LINES, member), rule)
  return entry and cmsgpack.pack(entry)
end

local function change_named(name)
  local revision, rule, member = tonumber(string.sub(name, 2, 16)), tonumber(string.sub(name, 17, 18)), string.sub(name, 19)
  local entry = entry_of(load_line(LINES, member), rule)
  for _, change in ipairs(entry and entry.log or {}) do
    if change[1] == revision then return change[2] end
  end
end

for _, name in ipairs(redis.call('ZRANGE', INDEX, args.from, args.to, 'BYLEX', 'LIMIT', 0, args.count)) do
  local value = string.sub(name, 1, 1) == 'l' and entry_named(name) or change_named(name)
  if not value then error('invariant: what the index of rewards names is in its line') end
  show(name, value)
end
return {'OK', found}
