-- check_keys.lua: finds keys of a board, or shard, that exist but are not in the registry, and adds them to it.
--
-- Takes: 2 keys or more, 1 argument
-- KEYS[1]  registry; KEYS[2…] the keys
-- ARGV[1]  '1' to repair, otherwise '0'
--
-- Reply: for each key 1 if it exists and was not registered, otherwise 0
-- Example: KEYS st:{b}:1:keys st:{b}:1:s:all:all  ARGV '0'  reply {1}

local REGISTRY, repairs = KEYS[1], ARGV[1] == '1'

local reply = {}
for index = 2, #KEYS do
  local is_missing = redis.call('EXISTS', KEYS[index]) == 1 and redis.call('SISMEMBER', REGISTRY, KEYS[index]) == 0
  if is_missing and repairs then redis.call('SADD', REGISTRY, KEYS[index]) end
  reply[index - 1] = is_missing and 1 or 0
end
return reply
