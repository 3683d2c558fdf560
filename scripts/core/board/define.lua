-- define.lua: creates or replaces a board's definition, if the definition is still the one that the caller saw.
--
-- Takes: 1 key, 5 arguments
-- KEYS[1] board: hash with `version`, `definition` (JSON) and, once it has events, `used`: the version of the definition
--         when an event last set it; `closing_until`: see decide.lua; `deleted`, `unfinished:…`: see delete.lua
-- ARGV[1] the version that the caller saw, '' for none
-- ARGV[2] '' or a revision: the change is allowed only if no event has come in at this revision or a later one
-- ARGV[3] the new version, '' for a trial: nothing is written
-- ARGV[4] the new definition, JSON
-- ARGV[5] the instant of the last decided closing that the caller saw, ms since the epoch, '' for none; '*' for any
--
-- Reply: {'OK'} | {'CHANGED'} another version is stored, a closing was decided, or a board of that name was deleted after the
--   new one got its generation, or is still being deleted | {'USED'} there are such events
-- Example: KEYS st:{b}  ARGV '' '' '1-1' '{…}' ''  reply {'OK'}

local BOARD, seen, unused_since, version, definition = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local seen_closing = ARGV[5]

local stored = redis.call('HMGET', BOARD, 'version', 'used', 'closing_until', 'deleted')
if (stored[1] or '') ~= seen then return {'CHANGED'} end
if seen == '' and stored[4] then
  -- Its shards may know of the deletion, and would ignore an older generation.
  local generation = tonumber(string.match(version, '^%d+'))
  if generation <= tonumber(stored[4]) or redis.call('HEXISTS', BOARD, 'unfinished:' .. stored[4]) == 1 then
    return {'CHANGED'}
  end
end
if seen_closing ~= '*' and (stored[3] or '') ~= seen_closing then return {'CHANGED'} end
local used_at = stored[2] and tonumber(string.match(stored[2], '%-(%d+)$') or math.huge)
if unused_since and used_at and used_at >= unused_since then return {'USED'} end
if version ~= '' then
  redis.call('HSET', BOARD, 'version', version, 'definition', definition)
  -- The proof of a deletion would expire.
  if seen == '' then redis.call('PERSIST', BOARD) end
end
return {'OK'}
