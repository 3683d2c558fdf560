-- api_key.lua: creates, changes or deletes an API key if it is still what the caller saw, and announces that in one step.
-- Uses: lib/announce.lua
--
-- Takes: 6 keys, 4 arguments
-- KEYS[1] the names of all API keys; KEYS[2] names by the sequence number of their last change; KEYS[3] the last sequence
--         number; KEYS[4] the epoch of these numbers (lib/announce.lua)
-- KEYS[5] hash: name -> API key, JSON; KEYS[6] hash: name -> when it was last used, ms (api_key_uses.lua)
-- ARGV[1] name
-- ARGV[2] the JSON that the caller saw, '' for none
-- ARGV[3] the new JSON, '' to delete it
-- ARGV[4] how many API keys there may be
--
-- Reply: {'OK'} | {'CHANGED'} it is not what the caller saw | {'FULL'} there are too many
-- Example: KEYS st:{boards}:api-key-names st:{boards}:api-key-changes st:{boards}:api-key-sequence
--     st:{boards}:api-key-epoch st:{boards}:api-keys st:{boards}:api-key-uses
--   ARGV 'site' '' '{…}' '100000'  reply {'OK'}

local NAMES, CHANGES, SEQUENCE, EPOCH, STORED, USES = unpack(KEYS)
local name, seen, new, count_max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if (redis.call('HGET', STORED, name) or '') ~= seen then return {'CHANGED'} end
if seen == '' and redis.call('HLEN', STORED) >= count_max then return {'FULL'} end
if new == '' then
  redis.call('HDEL', STORED, name)
  redis.call('HDEL', USES, name)
else
  redis.call('HSET', STORED, name, new)
end
announce(NAMES, CHANGES, SEQUENCE, EPOCH, name, new ~= '')
return {'OK'}
