-- read_events.lua: reads rows of kept events in the order of an index (lib/history.lua).
-- Uses: lib/keys.lua, lib/erasures.lua, lib/ordered.lua, lib/member_index.lua, lib/history.lua
--
-- Takes: 2 keys, 3 arguments
-- KEYS[1]  head of the shard, KEYS[2] registry
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   layout    see lib/standing.lua
--   member    whose rows; nil for those of all, in the order in which they were accepted
--   oldest    of those of all, whether to read the first ones after the first text and before the second, those of members
--             that are being erased too; otherwise the last ones, the last first
--   count     how many events to read at most
--   watched   whether the reply says how many bytes of texts are listed for a correction (lib/history.lua)
-- ARGV[2], ARGV[3]  texts of the index: what is read is not before the first (after it, with `oldest`), and before the second
--
-- Reply: {'STALE'} | {'OK', with `watched` the number of bytes; for each event: its text in the index, its row ('' if there is none)}. Of members that are
-- being erased there are only the texts.
-- Example: KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', layout={…}, oldest=false, count=500}
--   '' '\255'  reply {'OK', '……run-1', '…'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
local head = call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= args.version then return {'STALE'} end
load_history()
load_hides()
local history = open_history(HEAD, REGISTRY, args.layout)
local low, high, texts = ARGV[2], ARGV[3], nil
if args.member then
  texts = texts_of_member(history.of_members, args.member, high, low, args.count)
elseif args.oldest then
  texts = texts_after(history.taken, low, high, args.count)
else
  texts = texts_before(history.taken, high, low, args.count)
end
local reply = {'OK'}
if args.watched then reply[2] = call('STRLEN', history.watched_texts) end
if #texts == 0 then return reply end

local ids, id_in = {}, args.member and id_of_member or id_in_taken
for place, text in ipairs(texts) do ids[place] = id_in(text) end
local ERASING = beside_registry(REGISTRY, KIND_ERASING)
local leaves_out = not args.oldest and head[2] and call('HLEN', ERASING) > 0

local function is_erasing(row)
  local _, _, member = parts_of_row(row)
  return call('HEXISTS', ERASING, member) == 1
end

for place, row in ipairs(call('HMGET', history.rows, unpack(ids))) do
  reply[#reply + 1] = texts[place]
  reply[#reply + 1] = row and not (leaves_out and is_erasing(row)) and row or ''
end
return reply
