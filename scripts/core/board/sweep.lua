-- sweep.lua: looks at some of the keys of a server, and unlinks those that belong to deleted boards. No registry names
-- these keys, because they expire by themselves.
-- Uses: lib/cursor.lua
--
-- The script works on a server, not on a slot: the caller walks the primaries of a cluster one after the other. It skips
-- keys whose slot is moving and belongs to another server.
--
-- Takes: no key, 5 arguments or more
-- KEYS[1] none: the keys are found by the walk
-- ARGV[1] cursor ('0' at first; lib/cursor.lua), ARGV[2] about how many keys are looked at
-- ARGV[3] the pattern of such keys, ARGV[4] the codes of their kinds, a letter each (src/redis/keys.rs)
-- ARGV[5…] `generation board` of each deleted board
--
-- Reply: {cursor ('0': this was the last part), how many were unlinked}
-- Example: ARGV '0' '500' 'st:{*}:*:[etvq]:*' 'etvq' '1 b', with the key st:{b:16:3}:1:e:x1  reply {'0', 1}

local is_deleted = {}
for place = 5, #ARGV do is_deleted[ARGV[place]] = true end

local keys, cursor = scan_on('SCAN', nil, ARGV[1], ARGV[2], ARGV[3])
local count = 0
for _, key in ipairs(keys) do
  -- The tag begins with the board's id, which has no colon.
  local board, generation, code = string.match(key, '^[^{]*{([^:}]+)[^}]*}:(%d+):([^:]+)')
  local is_swept = board and #code == 1 and string.find(ARGV[4], code, 1, true)
  if is_swept and is_deleted[generation .. ' ' .. board] and redis.pcall('UNLINK', key) == 1 then count = count + 1 end
end
return {cursor, count}
