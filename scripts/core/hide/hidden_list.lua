-- hidden_list.lua: brings the hidden list of a standing a bounded step closer to the journal of hides (lib/hidden.lua).
--
-- A list that is missing, or needs lines that the journal has forgotten, is built from scratch. The caller repeats the call
-- until the reply is DONE. Several callers may do so at once.
--
-- KEYS[1]  board, or head of the shard; KEYS[2] registry; KEYS[3…] the standing (`layout.width` keys)
-- ARGV[1]  MessagePack of a map: version, layout (as in apply.lua); lines: how many lines of the journal one call follows
--
-- Reply: {'STALE'} | {'MORE'} | {'DONE', the number of the hide up to which the list follows, text, 1 if the list is
--   truncated and has used up half of its spare (widen_list.lua), otherwise 0}
--
-- Example: bob was hidden, and the standing lists him:
--   KEYS  st:{b} st:{b}:1:keys st:{b}:1:s:day:2026-11-21  ARGV {version='1-1', layout={…}, lines=500}
--   reply {'DONE', '1', 0}

if #KEYS < 3 or #ARGV ~= 1 then return redis.error_reply('ERR hidden_list.lua: 3 keys or more, 1 argument') end
local BOARD, REGISTRY = KEYS[1], KEYS[2]
require_slot(BOARD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = call('HMGET', BOARD, 'version', 'hides', 'hides_from')
if head[1] ~= args.version then return {'STALE'} end
if not head[2] then return {'DONE', '0', 0} end
open_hides(head[2], REGISTRY)

local ids = {}
local standing = standing_at(open_standings(args.layout, ids), 3)
local hidden = hidden_of(standing)

local function done()
  return {'DONE', head[2], is_list_narrow(standing, hidden) and 1 or 0}
end

if is_list_current(standing) then return done() end
if not is_list_whole(hidden) or hidden.number < tonumber(head[3] or 0) then begin_list(standing, 0) end

local lines = call('ZRANGE', hides.journal, '(' .. number_text(hidden.number), '+inf', 'BYSCORE', 'LIMIT', 0, args.lines,
  'WITHSCORES')
for index = 1, #lines, 2 do ids[#ids + 1] = lines[index] end
if #ids > 0 then
  local scores, times = fetch(standing, ids)
  local gone, added, added_scores, touched = {}, {}, {}, {}
  for m = 1, #ids do
    local score = scores[m]
    if score then
      touched[score] = true
      if is_hide(tonumber(lines[2 * m])) then
        added[#added + 1], added_scores[#added_scores + 1] = zmember(standing, m, times[m]), score
      else
        gone[#gone + 1] = zmember(standing, m, times[m])
      end
    end
  end
  change_list(standing, gone, added, added_scores, touched)
end
local is_done = #ids < args.lines
hidden.number = is_done and hides.number or tonumber(lines[#lines])
store_list(standing)
if is_done then return done() end
return {'MORE'}
