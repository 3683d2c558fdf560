-- names.lua: reads some of the names that a key has, such as ids of members.
-- Uses: lib/cursor.lua, lib/queue.lua
--
-- Takes: 1 key, 3 arguments
-- KEYS[1] the key
-- ARGV[1] which names: 'fields', 'values' or 'pairs' (both) of a hash, the elements of a 'set' or a 'sorted' set, or the members
--         of the 'events' in a stream ('' for one that can't be read)
-- ARGV[2] cursor: '0' at first (lib/cursor.lua); ARGV[3] about how many entries are looked at
--
-- Reply: {cursor ('0': this was the last part), names}
-- Example: the members of a standing:
--   KEYS st:{b}:1:s:day:2026-11-21:members  ARGV 'fields' '0' '300'  reply {'0', {'ann', 'bob'}}

local KEY, which, cursor, count = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local COMMANDS = {fields = 'HSCAN', values = 'HSCAN', pairs = 'HSCAN', sorted = 'ZSCAN', set = 'SSCAN'}

if which == 'events' then
  load_queue()
  local part, names = redis.call('XRANGE', KEY, cursor == '0' and '-' or '(' .. cursor, '+', 'COUNT', count), {}
  for index, found in ipairs(part) do names[index] = member_of(fields_by_name(found).event) end
  return {#part == count and part[count][1] or '0', names}
end

local part, next_cursor = scan_on(COMMANDS[which], KEY, cursor, count)
if which == 'set' or which == 'pairs' then return {next_cursor, part} end
local names = {}
for index = which == 'values' and 2 or 1, #part, 2 do names[#names + 1] = part[index] end
return {next_cursor, names}
