-- audit_write.lua: writes an intent into the audit log, or the outcome of one. Drops old lines if the log gets too large.
-- Uses: lib/audit.lua
--
-- KEYS[1] stream: the lines; KEYS[2] hash: id of a line -> outcome; KEYS[3] how many bytes they take (lib/audit.lua)
-- ARGV[1] how many bytes there may be
-- ARGV[2] JSON
-- ARGV[3] of an outcome the id of its line
-- ARGV[3] of an intent the caller; ARGV[4] the boards and ARGV[5] the pseudonyms of the members that it names, each with a
--         separator before and after it
--
-- Reply: {'OK', id} | {'GONE'} the line was dropped, or has an outcome
-- Example: KEYS st:{boards}:audit st:{boards}:audit-outcomes st:{boards}:audit-size
--   ARGV '1000000' '{…}' 'site' '␟run␟' '␟m-5f␟'  reply {'OK', '1795305600123-0'}

if #KEYS ~= 3 or (#ARGV ~= 3 and #ARGV ~= 5) then return redis.error_reply('ERR audit_write.lua: 3 keys, 3 or 5 arguments') end
local LOG, OUTCOMES, SIZE = KEYS[1], KEYS[2], KEYS[3]
local size_max, json = tonumber(ARGV[1]), ARGV[2]

local id, size
if #ARGV == 5 then
  local fields = {'json', json, 'by', ARGV[3], 'boards', ARGV[4], 'members', ARGV[5]}
  id, size = redis.call('XADD', LOG, '*', unpack(fields)), size_of(fields)
else
  id, size = ARGV[3], #json
  if #redis.call('XRANGE', LOG, id, id) == 0 then return {'GONE'} end
  if redis.call('HSETNX', OUTCOMES, id, json) == 0 then return {'GONE'} end
end
if redis.call('INCRBY', SIZE, size) > size_max then drop_oldest(LOG, OUTCOMES, SIZE, '+', 100) end
return {'OK', id}
