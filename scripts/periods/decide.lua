-- decide.lua: decides a closing of a board: all periods that end up to an instant become final.
--
-- The barriers of the board's shards follow it, and then the results. The next closing is decided when all results of the
-- last one are recorded. An earlier decision stays.
--
-- Takes: 1 key, 4 arguments
-- KEYS[1] board: hash with `version`, `closing_until`: the instant for which a closing was decided last, `results_until`:
--         the results of all periods that end up to it are recorded, `pinned`: JSON (src/domain/closing.rs); instants in ms
-- ARGV[1] the version of the definition that the closing pins
-- ARGV[2] the instant, ms since the epoch
-- ARGV[3] what is pinned with it, JSON
-- ARGV[4] since when the board has `finalize`, ms: periods that ended by then have no result
--
-- Reply: {'STALE'} | {'PENDING'} results of the last closing are missing: nothing done | {'OK'} this closing is decided
-- Example: KEYS st:{b}  ARGV '1-1' '1795305600000' '[…]' '1795300000000'  reply {'OK'}

local BOARD, version, instant, pinned, since = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = redis.call('HMGET', BOARD, 'version', 'closing_until', 'results_until')
if stored[1] ~= version then return {'STALE'} end
local decided, recorded = stored[2], stored[3]
if decided and tonumber(decided) >= tonumber(instant) then return {'OK'} end
if decided and tonumber(recorded) < tonumber(decided) then return {'PENDING'} end
if not recorded or tonumber(recorded) < tonumber(since) then recorded = since end
redis.call('HSET', BOARD, 'closing_until', instant, 'results_until', recorded, 'pinned', pinned)
return {'OK'}
