-- note_digest.lua: notes the digest of a final period, or how far it has come.
--
-- Takes: 3 keys, 4 arguments
-- KEYS[1] board; KEYS[2] registry of results; KEYS[3] digests of the window: hash
-- ARGV[1] version, as in apply.lua
-- ARGV[2] key of the period
-- ARGV[3] '1' if the digest is complete, '0' if it is being made
-- ARGV[4] the digest, or how far it has come: JSON (src/periods/results/store.rs)
--
-- The hash holds a digest under the key of its period, and one in progress under 'making:' and that key.
--
-- Reply: {'STALE'} | {'OK'}
-- Example: KEYS st:{b} st:{b}:1:results-keys st:{b}:1:digests:day  ARGV '1-1' '2026-11-21' '1' '{…}'  reply {'OK'}

local BOARD, REGISTRY, DIGESTS = KEYS[1], KEYS[2], KEYS[3]
local version, key, is_made, noted = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]

if redis.call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
redis.call('SADD', REGISTRY, DIGESTS)
redis.call('HSET', DIGESTS, is_made and key or 'making:' .. key, noted)
if is_made then redis.call('HDEL', DIGESTS, 'making:' .. key) end
return {'OK'}
