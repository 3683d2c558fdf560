-- shard.lua: gives a shard the version of its board's definition that is in use. The shard ignores a version that is older
-- than the one that it knows.
--
-- KEYS[1] the shard's head: hash with `version` and, once it has events, `used`
-- ARGV[1] the generation of the board, ARGV[2] its revision
--
-- Reply: {'OK'} | {'OK', a later revision that it knows of this board, text}
-- Example: KEYS st:{b:16:3}  ARGV '1' '2'  reply {'OK'}

if #KEYS ~= 1 or #ARGV ~= 2 then return redis.error_reply('ERR shard.lua: 1 key, 2 arguments') end
local HEAD, generation, revision = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
require_slot(HEAD)

local known = redis.call('HGET', HEAD, 'version')
local known_generation, known_revision = string.match(known or '0-0', '^(%d+)-(%d+)$')
known_generation, known_revision = tonumber(known_generation), tonumber(known_revision)
if generation > known_generation then redis.call('DEL', HEAD) end
if generation > known_generation or (generation == known_generation and revision > known_revision) then
  redis.call('HSET', HEAD, 'version', ARGV[1] .. '-' .. ARGV[2])
end
if generation == known_generation and revision < known_revision then
  return {'OK', string.format('%.0f', known_revision)}
end
return {'OK'}
