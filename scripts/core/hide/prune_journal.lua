-- prune_journal.lua: forgets members that were brought back: removes some of their lines from the journal (lib/hides.lua).
-- Hidden lists that have not followed a removed line are built from scratch.
-- Uses: lib/slot.lua, lib/keys.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the journal follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   after     the number of the line after which the call begins; 0 at first
--   up_to     the number of the last line that may be removed: results were revised by it
--   count     how many lines one call looks at
--
-- Reply: {'STALE'} | {'OK', the number of the line after which the next call begins, text; '' at the end}
--
-- Example: bob was hidden and brought back:
--   KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', after=0, up_to=2, count=300}  reply {'OK', ''}

local HEAD, JOURNAL = KEYS[1], beside_registry(KEYS[2], KIND_HIDE_JOURNAL)
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])

local head = redis.call('HMGET', HEAD, 'version', 'hides_from')
if head[1] ~= args.version then return {'STALE'} end

local function text(number) return string.format('%d', number) end

local lines = redis.call('ZRANGE', JOURNAL, '(' .. text(args.after), text(args.up_to), 'BYSCORE', 'LIMIT', 0, args.count,
  'WITHSCORES')
local from = tonumber(head[2] or 0)
for index = 1, #lines, 2 do
  local number = tonumber(lines[index + 1])
  if number % 2 == 0 then
    redis.call('ZREM', JOURNAL, lines[index])
    from = math.max(from, number)
  end
end
if from > tonumber(head[2] or 0) then redis.call('HSET', HEAD, 'hides_from', text(from)) end
return {'OK', #lines == 2 * args.count and lines[#lines] or ''}
