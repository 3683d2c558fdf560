-- periods.lua: reads which periods of a unit have data in a shard (lib/periods.lua).
-- Uses: lib/periods.lua
--
-- Takes: 2 keys, 6 arguments
-- KEYS[1] board, or head of the shard; KEYS[2] index of the unit
-- ARGV[1] version
-- ARGV[2], ARGV[3] the first and the last key, as ZRANGE BYLEX takes them; with ARGV[4] the first is the later one
-- ARGV[4] '1': newest first, '0': oldest first
-- ARGV[5] how many keys the reply has at most, ARGV[6] how many lines of the index the script looks at
--
-- Reply: {'STALE'} | {'OK', where to go on ('' at the end), key, …}
-- Example: KEYS st:{b} st:{b}:1:periods:day  ARGV '1-1' '(2026-11-20' '+' '0' '1' '1000'
--   reply {'OK', '2026-11-21', '2026-11-21'}

local BOARD, INDEX, version, from, to = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local is_newest_first, count, lines = ARGV[4] == '1', tonumber(ARGV[5]), tonumber(ARGV[6])
local call = redis.call
load_periods()

if call('HGET', BOARD, 'version') ~= version then return {'STALE'} end
local listed
if is_newest_first then
  listed = call('ZRANGE', INDEX, from, to, 'BYLEX', 'REV', 'LIMIT', 0, lines)
else
  listed = call('ZRANGE', INDEX, from, to, 'BYLEX', 'LIMIT', 0, lines)
end
local next_from, reply = #listed == lines and listed[lines] or '', {'OK', ''}
for _, period in ipairs(listed) do
  if call('EXISTS', zset_of_period(INDEX, period)) == 1 then
    reply[#reply + 1] = period
    if #reply == 2 + count then
      next_from = period
      break
    end
  end
end
reply[2] = next_from
return reply
