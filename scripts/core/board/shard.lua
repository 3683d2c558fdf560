-- shard.lua: gives a shard the version of its board's definition that is in use. The shard ignores a version that is older
-- than the one that it knows.
-- Uses: lib/slot.lua
--
-- A deletion gives the shards of the deleted board its own stamp as generation. So they refuse every call of that board, and
-- any later board of that name opens them.
--
-- Takes: 1 key, 3 arguments
-- KEYS[1] the shard's head: hash with `version` and, once it has events, `used`
-- ARGV[1] the generation of the board, or the stamp of its deletion
-- ARGV[2] the revision of the board, 0 for a deletion
-- ARGV[3] for how long the head of a deleted board is kept, in ms; otherwise ''
--
-- Reply: {'OK'} | {'OK', a later revision that it knows of this board, text} | {'STALE'} it knows of a later board of that
--   name, or that this one was deleted
-- Example: KEYS st:{b:16:3}  ARGV '1' '2' ''  reply {'OK'}

local HEAD, generation, revision, lasts = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
require_slot(HEAD)

local known = redis.call('HGET', HEAD, 'version')
local known_generation, known_revision = string.match(known or '0-0', '^(%d+)-(%d+)$')
known_generation, known_revision = tonumber(known_generation), tonumber(known_revision)
if generation < known_generation then return {'STALE'} end
if generation > known_generation then redis.call('DEL', HEAD) end
if generation > known_generation or revision > known_revision then
  redis.call('HSET', HEAD, 'version', ARGV[1] .. '-' .. ARGV[2])
end
if lasts ~= '' then redis.call('PEXPIRE', HEAD, lasts) end
if generation == known_generation and revision < known_revision then
  return {'OK', string.format('%.0f', known_revision)}
end
return {'OK'}
