-- lib/cursor.lua: walks over keys that stay correct when another process of Redis takes over.
-- Uses: lib/process.lua
--
-- A cursor of Redis says how far a walk has come through the buckets of a hash table. Each process of Redis puts the same
-- entries into different buckets, so in another process (Redis was restarted, a replica has taken over, the slot has moved)
-- the cursor would skip entries. So a cursor is stored with the id of its process, and in another process the walk starts
-- over.

-- Reads some entries of a key by HSCAN, SSCAN or ZSCAN, or, with nil as the key, some of the server's keys by SCAN; returns
-- them and the next cursor. With a pattern only what matches it. A walk begins with the cursor '0', and ends when this
-- cursor is returned. It meets every entry that exists all the time at least once.
local function scan_on(command, key, cursor, count, pattern)
  local process = process_id()
  local place, of_process = string.match(cursor, '^(%d+)@(%x*)$')
  if of_process ~= process then place = '0' end
  local words = {place, 'COUNT', count}
  if key then table.insert(words, 1, key) end
  if pattern then words[#words + 1], words[#words + 2] = 'MATCH', pattern end
  local part = redis.call(command, unpack(words))
  local next_cursor = part[1] == '0' and '0' or part[1] .. '@' .. process
  return part[2], next_cursor
end
