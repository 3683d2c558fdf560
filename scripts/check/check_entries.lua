-- check_entries.lua: compares the entries of a member with its folded entries and rows (lib/history.lua).
-- Uses: lib/keys.lua, lib/standing.lua, lib/member_index.lua, lib/history.lua, lib/check.lua
--
-- Takes: 2 keys or more, 1 argument or more
-- KEYS[1]  head of the shard, KEYS[2] registry, KEYS[3…] sorted sets of standings
-- ARGV[1]  MessagePack of a map:
--   version, layout, update   as in apply.lua
--   member     its id
--   ids        of all of its rows
--   standings  list of {index in KEYS, whether events without rows may count in it (0 | 1), list of what the rows add:
--              {stored amount, tie key, data}}
-- ARGV[2…]  these rows, as the caller has read them
--
-- Reply: {'STALE'} | {'CHANGED'}: the member has other rows, or is being erased | {'OK', for each difference
--   {code, outcome, sorted set, what is stored, what it should be}}: 'entry' | 'unfolded': it has rows, but no folded entry
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:s:all:all
--   ARGV {version='1-1', …, member='ann', ids={'run-1'}, standings={{3, 0, {{-5, 4004294400000001, ''}}}}} '…'
--   reply {'OK'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
local layout, member = args.layout, args.member
if call('HGET', HEAD, 'version') ~= args.version then return {'STALE'} end
if call('HEXISTS', beside_registry(REGISTRY, KIND_ERASING), member) == 1 then return {'CHANGED'} end
load_history()
local history = open_history(HEAD, REGISTRY, layout)
if #texts_of_member(history.of_members, member, '\255', '', #args.ids + 1) ~= #args.ids then return {'CHANGED'} end
for index, id in ipairs(args.ids) do
  if call('HGET', history.rows, id) ~= ARGV[index + 1] then return {'CHANGED'} end
end

local function entry_text(entry)
  if not entry then return 'none' end
  return number_text(entry.score) .. ' ' .. (entry.time and number_text(entry.time) or '') .. ' ' .. (entry.data or '')
end

local function check_standing(zset, is_old, events)
  local standing = open_standing(open_standings(layout, {member}), keys_of_zset(zset, layout))
  -- It has expired.
  if call('EXISTS', zset) == 0 then return end
  load(standing, {1})
  local stored = standing.score[1]
    and {score = standing.score[1], time = standing.time[1], data = standing.data and standing.data[1]} or nil
  local packed = call('HGET', folded_of(zset), member)
  if is_old and not packed then return differs('unfolded', LEFT, zset, '', '') end
  local entry = entry_with_events(layout, args.update, unpack_entry(layout, packed), events)
  if entry_text(stored) ~= entry_text(entry) then differs('entry', LEFT, zset, entry_text(stored), entry_text(entry)) end
end

for _, standing in ipairs(args.standings) do check_standing(KEYS[standing[1]], standing[2] == 1, standing[3]) end
return {'OK', unpack(differences)}
