-- audit_trim.lua: drops some lines of the audit log that are too old, and forgets some members that no line names any more.
-- Uses: lib/audit.lua, lib/pseudonyms.lua
--
-- Takes: 6 keys, 2 arguments
-- KEYS[1] stream: the lines; KEYS[2] hash: id of a line -> outcome; KEYS[3] how many bytes they take (lib/audit.lua)
-- KEYS[4] hash: member -> pseudonym; KEYS[5] hash: pseudonym -> member; KEYS[6] sorted set: pseudonyms by last line, ms
-- ARGV[1] lines from before this instant are too old, ms
-- ARGV[2] drop at most this many lines, and forget at most this many members
--
-- Reply: {how many lines were dropped, how many members were forgotten, how many bytes the log takes}
-- Example: KEYS st:{boards}:audit st:{boards}:audit-outcomes st:{boards}:audit-size
--     st:{boards}:audit-pseudonyms st:{boards}:audit-members st:{boards}:audit-seen
--   ARGV '1795305600000' '100'  reply {3, 1, 2048}

local LOG, OUTCOMES, SIZE, PSEUDONYMS, MEMBERS, SEEN = unpack(KEYS)
local before, count = tonumber(ARGV[1]), ARGV[2]

local dropped, forgotten = 0, {}
if before > 0 then
  local last = string.format('%d', before - 1)
  dropped = drop_oldest(LOG, OUTCOMES, SIZE, last, count)
  -- A pseudonym is given before its line is written, so a line may be slightly younger.
  forgotten = redis.call('ZRANGE', SEEN, '-inf', last, 'BYSCORE', 'LIMIT', '0', count)
  forget(PSEUDONYMS, MEMBERS, SEEN, forgotten)
end
return {dropped, #forgotten, tonumber(redis.call('GET', SIZE) or 0)}
