-- forget.lua: removes a bounded part of what an erased member has left in a shard (lib/erasures.lua).
--
-- The caller repeats the call until the reply is DONE. Any number of callers may do so at once, and any of them may stop
-- half-way. The script walks the registry with a cursor (lib/cursor.lua), and takes the member out of each standing that is
-- named there. The walk meets every key that was there when the member was erased. Nothing new of the member comes in
-- meanwhile: apply.lua and initial.lua refuse it, and advance.lua leaves it out.
--
-- KEYS[1]  head of the shard, or board; KEYS[2] registry; the erasures and the hides lie beside it
-- ARGV[1]  MessagePack of a map:
--   version     as in apply.lua
--   layout      see lib/standing.lua
--   member      its id
--   standings   the kinds of standings: code -> whether one lists all members, whatever the layout says
--   parts       the kinds of the other keys of a standing: code -> true
--   count       how many names of the registry one call looks at, about
--
-- Reply: {'STALE'} | {'MORE'} | {'DONE'}: nothing is left
--
-- Example: ann, who stands in the only standing of a board:
--   KEYS  st:{b}  st:{b}:1:keys
--   ARGV  {version='1-1', layout={…}, member='ann', standings={s=false, …}, parts={members=true, …}, count=300}
--   reply {'DONE'}

if #KEYS ~= 2 or #ARGV ~= 1 then return redis.error_reply('ERR forget.lua: 2 keys, 1 argument') end
local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()
local member, layout = args.member, args.layout

local head = call('HMGET', HEAD, 'version', 'moving', 'hides')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end
if head[3] then open_hides(head[3], REGISTRY) end

local ERASING = beside_registry(REGISTRY, KIND_ERASING)
local cursor = call('HGET', ERASING, member)
if not cursor then return {'DONE'} end

local layout_of_all = {}
for name, value in pairs(layout) do layout_of_all[name] = value end
layout_of_all.keep = 0

-- Takes the member out of the standing of this kind with this sorted set.
local function leave(kind, zset)
  local own_layout = args.standings[kind] and layout_of_all or layout
  local standing = open_standing(open_standings(own_layout, {member}), keys_of_zset(zset, layout))
  standing.kind = kind
  load(standing, {1})
  if not standing.score[1] then return end
  set(standing, 1, false)
  flush(standing)
  if count_members(standing) > 0 then return end
  unlink_standing(standing)
  -- The keys of a derived standing stay in the registry for as long as its state names them.
  if kind ~= KIND_DERIVED then call('SREM', REGISTRY, unpack(keys_of(standing))) end
end

local prefix_length, suffix = #REGISTRY - #KIND_REGISTRY, SEPARATOR .. member

-- Removes what the member has won in a period.
local function leave_rewards(key)
  local names = names_of_line(member, load_line(key, member))
  if #names > 0 then store_line(rewards_of(REGISTRY, key), member, names, nil) end
end

-- Removes what a key has of the member.
local function forget(key)
  local kind, name = string.match(string.sub(key, prefix_length + 1), '^([^:]+):(.*)$')
  if kind == KIND_VOTERS and string.sub(name, -#suffix) == suffix then
    call('UNLINK', key)
    call('SREM', REGISTRY, key)
    capture(KIND_MEMBER_VOTERS, key)
  elseif kind == KIND_REWARDS then
    leave_rewards(key)
  elseif args.standings[kind] ~= nil and not args.parts[string.match(name, '[^:]*$')] then
    leave(kind, key)
  end
end

local names
names, cursor = scan_on('SSCAN', REGISTRY, cursor, args.count)
for _, key in ipairs(names) do forget(key) end
if cursor ~= '0' then
  call('HSET', ERASING, member, cursor)
  return {'MORE'}
end
local PAST_INITIAL = beside_registry(REGISTRY, KIND_PAST_INITIAL)
if call('HDEL', PAST_INITIAL, member) == 1 then capture(KIND_PAST_INITIAL, PAST_INITIAL, member) end
call('HDEL', ERASING, member)
capture(KIND_ERASING, ERASING, member)
-- No hidden list has an entry of the member any more, so the journal need not tell of it.
call('ZREM', beside_registry(REGISTRY, KIND_HIDE_JOURNAL), member)
return {'DONE'}
