-- reserved.lua: reads some of the open reservations (reserve.lua).
-- Uses: lib/cursor.lua
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  board      head of the shard's counts
-- KEYS[2]  reserved   hash: token -> note
--
-- ARGV[1]  MessagePack of a map: version (as in apply.lua); cursor ('0' at first; lib/cursor.lua) and count: about how many
--          notes one call looks at; older: only notes of at least this age, in ms by the server's clock
--
-- Reply: {'STALE'}, or {'OK', cursor ('0': this was the last part), for each {token, age in ms, tag, record, void}}
-- Example: a reservation that was not settled: {'OK', '0', {'fYQ3xK0aZ-1', 15012, 'b:4:1', 'st:{b:4:1}:1:e:x1', …}}

local call = redis.call

local BOARD, NOTES = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])

if call('HGET', BOARD, 'version') ~= args.version then return {'STALE'} end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local flat, cursor = scan_on('HSCAN', NOTES, args.cursor, args.count)
local reply = {'OK', cursor}
for index = 1, #flat, 2 do
  local note = cmsgpack.unpack(flat[index + 1])
  local age = now - note.at
  if age >= args.older then reply[#reply + 1] = {flat[index], age, note.tag, note.record, note.void} end
end
return reply
