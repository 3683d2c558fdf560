-- refused.lua: checks which commands the user of the connection may not use on the service's keys.
--
-- Takes: no key, 2 arguments or more
-- KEYS[1] none: the key is only compared with the user's patterns, and may be on another node
-- ARGV[1] a key of the service
-- ARGV[2…] the commands
--
-- Reply: the commands that the user may not use
-- Example: ARGV 'st:{boards}:live' 'GET' 'SET'  reply {'SET'}

local refused = {}
for place = 2, #ARGV do
  -- A command that the server lacks is an error.
  local is_known, is_allowed = pcall(redis.acl_check_cmd, ARGV[place], ARGV[1])
  if not (is_known and is_allowed) then table.insert(refused, ARGV[place]) end
end
return refused
