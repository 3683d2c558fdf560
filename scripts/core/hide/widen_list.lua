-- widen_list.lua: finds, by a bounded step, which members a truncated list with many hidden ones lacks (lib/hidden.lua).
-- Uses: lib/slot.lua, lib/members.lua, lib/changed.lua, lib/standing.lua, lib/hidden.lua, lib/follow.lua
--
-- The script walks over all members of the standing with a cursor (lib/cursor.lua). Events go on meanwhile: a member that
-- the cursor misses has just been written, and so is listed. The caller repeats the call until the reply is DONE. Several
-- callers may do so at once.
--
-- Takes: 3 keys or more, 1 argument
-- KEYS[1]  board, or head of the shard; KEYS[2] registry; KEYS[3…] the standing (`layout.width` keys)
-- ARGV[1]  MessagePack of a map: version, layout (as in apply.lua); count: about how many members one call looks at
--
-- Reply: {'STALE'} | {'DONE'} | {'MORE'}
--
-- Example: a standing with few hidden members:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:s:day:2026-11-21 st:{b}:1:s:day:2026-11-21:members
--   ARGV  {version='1-1', layout={…}, count=300}  reply {'DONE'}

local BOARD, REGISTRY = KEYS[1], KEYS[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = call('HMGET', BOARD, 'version', 'hides')
if head[1] ~= args.version then return {'STALE'} end
if not head[2] then return {'DONE'} end
open_hides(head[2], REGISTRY)

local names = {}
local standing = standing_at(open_standings(args.layout, names), 3)
local hidden = hidden_of(standing)
if not is_list_narrow(standing, hidden) and not hidden.walk then return {'DONE'} end
if not hidden.walk then hidden.walk, hidden.wide = '0', args.layout.keep + 2 * hidden.count end

local ids, scores, times, cursor = scan_members(standing, hidden.walk, args.count)
local entries, distinct, touched = {}, {}, {}
for m, id in ipairs(ids) do
  names[m] = id
  local text = number_text(scores[m])
  entries[2 * m - 1], entries[2 * m] = text, zmember(standing, m, times[m])
  distinct[2 * m - 1], distinct[2 * m] = text, text
  touched[scores[m]] = true
end
if #ids > 0 then
  note_change()
  call('ZADD', standing.zset, unpack(entries))
  if args.layout.dense then call('ZADD', standing.dense, unpack(distinct)) end
  keep_best(standing)
  if args.layout.dense and hidden.count > 0 then follow_scores(standing, hidden, touched) end
end
if cursor == '0' then
  set_exact(standing, hidden.wide)
  call('HDEL', hidden.state, 'walk', 'wide')
else
  call('HSET', hidden.state, 'walk', cursor, 'wide', number_text(hidden.wide))
end
if hidden.number then store_list(standing) end
-- More may have been hidden since the walk began.
return {cursor == '0' and not is_list_narrow(standing, hidden) and 'DONE' or 'MORE'}
