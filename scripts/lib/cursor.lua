-- lib/cursor.lua: walks that go on on another server.
-- Uses: lib/process.lua
--
-- A cursor of Redis tells how far a walk has come through the buckets of a table, and each process of Redis puts the
-- same things into other buckets. On another one (Redis was restarted, a replica has taken over, the slot has moved) it
-- would leave things out. So a cursor is kept with the id of its process, and on another one the walk begins anew.

-- Some of what a key holds, by HSCAN, SSCAN or ZSCAN, or, by SCAN, with nil as the key, of the server's keys; and the
-- cursor of the next part. With a pattern only what matches it is told. A walk begins with the cursor '0', and ends when it
-- is told that. It meets whatever is there all the time at least once.
local function scan_on(command, key, cursor, count, pattern)
  local process = process_id()
  local place, of_process = string.match(cursor, '^(%d+)@(%x*)$')
  if of_process ~= process then place = '0' end
  local words = {place, 'COUNT', count}
  if key then table.insert(words, 1, key) end
  if pattern then
    words[#words + 1] = 'MATCH'
    words[#words + 1] = pattern
  end
  local part = redis.call(command, unpack(words))
  local next_cursor = part[1] == '0' and '0' or part[1] .. '@' .. process
  return part[2], next_cursor
end
