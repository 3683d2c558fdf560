-- list_erasures.lua: reads some of the erasures of a shard (lib/erasures.lua).
-- Uses: lib/cursor.lua, lib/keys.lua, lib/erasures.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the key of the erasures follows
-- ARGV[1]  MessagePack of a map:
--   version   as in apply.lua
--   cursor    '0' at first (lib/cursor.lua)
--   count     about how many erasures one call looks at
--
-- Reply: {'STALE'} | {'OK', cursor ('0': this was the last part), the key of the names ('': no member was ever erased), and
--   for each erasure its name, its number, and its instant, a tie key of `ties: first`}
--
-- Example: ann was erased:
--   KEYS st:{b} st:{b}:1:keys  ARGV {version='1-1', cursor='0', count=300}
--   reply {'OK', '0', 'x', '2c26b46b…', '28080000123456', '4001000000000000'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
load_hides()

local head = redis.call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= args.version then return {'STALE'} end
if not head[2] then return {'OK', '0', ''} end

local lines, cursor = scan_on('HSCAN', beside_registry(REGISTRY, KIND_ERASED), args.cursor, args.count)
local reply = {'OK', cursor, head[2]}
for index = 1, #lines, 2 do
  -- The line without a name has the key for the names, and a line with the number 0 has only a hide.
  local erasure = lines[index] ~= '' and unpack_erasure(lines[index + 1])
  if erasure and erasure.number > 0 then
    reply[#reply + 1], reply[#reply + 2] = lines[index], string.format('%d', erasure.number)
    reply[#reply + 1] = string.format('%d', erasure.instant)
  end
end
return reply
