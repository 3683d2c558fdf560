-- forget_names.lua: takes the names of keys that no longer exist out of a shard's registry, in bounded steps.
-- Uses: lib/slot.lua, lib/cursor.lua, lib/keys.lua, lib/standing.lua, lib/derived.lua
--
-- Keys of periods expire, and standings of derived series are dropped, but their names stay. In a round the script walks over
-- the registry with a cursor (lib/cursor.lua). The head has the cursor, so that any instance goes on with the round. The
-- caller repeats the call until the reply is DONE.
--
-- A name is removed in the same step that misses its key: a call that makes such a key also puts its name into the registry
-- (lib/expiry.lua, lib/follow.lua). Two kinds of names stay although their keys are missing, because not every script that
-- makes the key names it: those of the keys of a standing that exists, and those of a derived standing that its state has
-- (lib/derived.lua), as advance.lua names its keys before there are any.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1] head of the shard, or board: hash with `version` and `names`: the cursor, and when the last round began
-- KEYS[2] registry
-- ARGV[1] MessagePack of a map:
--   version, now   as in apply.lua
--   interval   how many ms after a round the next one begins
--   count      about how many names one call looks at
--   kinds      the kinds of which names are taken out: code -> whether they are standings
--   parts      the kinds of the other keys of a standing: code -> true
--
-- Reply: {'STALE'} | {'MORE'} | {'DONE'}: a round has ended, and the next one is not due
-- Example: KEYS st:{b} st:{b}:1:keys
--   ARGV {version='1-1', now=1795305600123, interval=3600000, count=200, kinds={s=true, …}, parts={members=true, …}}
--   reply {'DONE'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])

local head = call('HMGET', HEAD, 'version', 'names')
if head[1] ~= args.version then return {'STALE'} end
local cursor, begun = string.match(head[2] or '0 0', '^(%S+) (%d+)$')
begun = tonumber(begun)
if cursor == '0' then
  if begun <= args.now and args.now < begun + args.interval then return {'DONE'} end
  begun = args.now
end

local prefix_length = #REGISTRY - #KIND_REGISTRY
-- The sorted sets of the derived standings that exist, by the keys of their states.
local derived = {}

-- Whether the state of its series has a derived standing.
local function is_in_state(zset, name)
  local state = beside_registry(REGISTRY, KIND_STATE) .. ':' .. string.match(name, '^[^:]*')
  if not derived[state] then
    derived[state] = {}
    for _, entry in ipairs(derived_entries(state)) do derived[state][entry.zset] = true end
  end
  return derived[state][zset]
end

local function is_obsolete(key)
  local kind, name = string.match(string.sub(key, prefix_length + 1), '^([^:]+):(.*)$')
  local is_standing = args.kinds[kind]
  if is_standing == nil or call('EXISTS', key) == 1 then return false end
  if not is_standing then return true end
  local part = string.match(name, '[^:]*$')
  local zset = args.parts[part] and string.sub(key, 1, -2 - #part) or key
  return call('EXISTS', zset) == 0 and not (kind == KIND_DERIVED and is_in_state(zset, name))
end

local names, obsolete = {}, {}
names, cursor = scan_on('SSCAN', REGISTRY, cursor, args.count)
-- Mostly all keys exist.
if #names > 0 and call('EXISTS', unpack(names)) < #names then
  for _, key in ipairs(names) do
    if is_obsolete(key) then obsolete[#obsolete + 1] = key end
  end
end
if #obsolete > 0 then call('SREM', REGISTRY, unpack(obsolete)) end
call('HSET', HEAD, 'names', cursor .. ' ' .. number_text(begun))
return {cursor == '0' and 'DONE' or 'MORE'}
