-- snapshot.lua: reads the next entries of a standing, and what has changed of it since the call before, as of one instant.
-- Uses: lib/standing.lua, lib/derived.lua, lib/hidden.lua, lib/visible.lua
--
-- Takes: 8 keys or more, 2 arguments
-- KEYS[1] board, KEYS[2] registry, KEYS[3] trail; KEYS[4…7] the shard's hides, hidden members, journal of hides, erasing members;
-- KEYS[8…] the standing (`layout.width` keys), and the state of its series if it is derived
-- ARGV[1] MessagePack of a map:
--   version, layout   as in read.lua
--   start      ms, of its newest period; absent if it isn't derived
--   count      how many entries
--   token      of the trail (begin_trail.lua); absent: there is none
--   changed    the field of the head at the call before; absent: this is the first call
--   score      of the last entry that the calls before have read; absent: none
--   all        whether entries of hidden members are returned
-- ARGV[2] the sorted-set member of that entry, '' for none
--
-- Reply: {'STALE'} | {'INCOMPLETE'}: the derived standing is not complete | {'BROKEN'}: the trail does not lead from the call
--   before to this one | {'OK', `changed`, how many entries the standing has, links since the call before, 1 if these are its
--   last entries, otherwise 0, how many of the read entries are left out, the last entry that was read, or {}, those that are not
--   left out, which of them are of hidden members}. Left out are those of hidden members, unless `all` are returned, and of
--   members that are being erased. Entries are a flat list of sorted-set members and scores (text).
-- Example: the first call for a board with ties by member:
--   KEYS st:{b} st:{b}:1:keys st:{b}:1:r:trail … st:{b}:1:s:all:all  ARGV {version='1-1', layout={…}, count=2}, ''
--   reply {'OK', '7 4f0c2a9be41d', 3, {}, 0, 0, {'bob', '-3'}, {'ann', '-5', 'bob', '-3'}, {}}

local BOARD, REGISTRY, TRAIL, HIDES, ERASING, STANDING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[7], 8
local args = cmsgpack.unpack(ARGV[1])
local head = call('HMGET', BOARD, 'version', 'changed', 'hides', 'trail')
if head[1] ~= args.version then return {'STALE'} end
local now_changed, layout = head[2] or '', args.layout
if args.start then
  local entry = entry_at(derived_entries(KEYS[#KEYS]), args.start)
  if not (entry and entry.done) then return {'INCOMPLETE'} end
end

-- How many changes there were up to this `changed`.
local function number_of(text)
  return tonumber(string.match(text, '^%d+') or 0)
end

-- The links from one `changed` to now; nil if the trail has lost some.
local function links_since(before)
  if before == now_changed then return {} end
  if string.match(head[4] or '', '^%d+') ~= args.token then return nil end
  local steps = number_of(now_changed) - number_of(before)
  if steps < 1 or steps > LINKS_MAX then return nil end
  return call('LRANGE', TRAIL, -steps, -1)
end

local links = {}
if args.changed then links = links_since(args.changed) end
if not links then return {'BROKEN'} end

load_visible()
local standing, from = standing_at(open_standings(layout, {}), STANDING), 0
-- No member has a zero byte, so this is directly after the entry, whether it is still there or not.
if args.score then from = count_before(standing.zset, number_text(args.score), ARGV[2] .. '\0') end
local read = call('ZRANGE', standing.zset, from, from + args.count - 1, 'WITHSCORES')

-- Why the entry of each of these members may be left out, by their ids: 'hidden', 'erasing' or nil.
local function reasons(ids)
  load_hides()
  open_hides(head[3], REGISTRY)
  load_marks(ids)
  local lines, erasing, found = call('HMGET', HIDES, unpack(ids)), call('HMGET', ERASING, unpack(ids)), {}
  for index, id in ipairs(ids) do
    found[index] = erasing[index] and 'erasing' or (is_hide(hides.marks[id]) or lines[index]) and 'hidden' or nil
  end
  return found
end

local entries, left_out, hidden = read, 0, {}
if head[3] and #read > 0 then
  local ids = {}
  for index = 1, #read, 2 do
    ids[(index + 1) / 2] = layout.prefixed and string.sub(read[index], TIE_KEY_BYTES + 1) or read[index]
  end
  entries = {}
  local found = reasons(ids)
  for index = 1, #ids do
    local reason, member, score = found[index], read[2 * index - 1], read[2 * index]
    if reason == 'erasing' or reason and not args.all then
      left_out = left_out + 1
    else
      entries[#entries + 1], entries[#entries + 2] = member, score
      if reason then hidden[#hidden + 1] = member end
    end
  end
end
local is_last = #read < 2 * args.count
local last = #read > 0 and {read[#read - 1], read[#read]} or {}
return {'OK', now_changed, call('ZCARD', standing.zset), links, is_last and 1 or 0, left_out, last, entries, hidden}
