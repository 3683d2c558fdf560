-- lib/cursor.lua: walks that go on on another server.
--
-- A cursor of Redis tells how far a walk has come through the buckets of a table, and each process of Redis puts the
-- same things into other buckets. On another one (Redis was restarted, a replica has taken over, the slot has moved) it
-- would leave things out. So a cursor is kept with the id of its process, and on another one the walk begins anew.

-- Some of what a key holds, by HSCAN, SSCAN or ZSCAN, and the cursor of the next part. A walk begins with the cursor
-- '0', and ends when it is told that. It meets whatever is there all the time at least once.
local function scan_on(command, key, cursor, count)
  local process = process_id()
  local place, of_process = string.match(cursor, '^(%d+)@(%x*)$')
  if of_process ~= process then place = '0' end
  local part = redis.call(command, key, place, 'COUNT', count)
  local next_cursor = part[1] == '0' and '0' or part[1] .. '@' .. process
  return part[2], next_cursor
end
