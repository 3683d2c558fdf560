-- seated.lua: reads in which periods of a league members were seated: from the index of a shard (lib/periods.lua), or from
-- the list of the final periods of the board. Both name cohorts of periods, as `2026-11-16/1-17`; the reply has each period
-- once.
-- Uses: lib/periods.lua
--
-- Takes: 2 keys, 5 arguments
-- KEYS[1] board, or head of the shard; KEYS[2] the index, or the final periods: a sorted set whose scores are all zero
-- ARGV[1] version, as in apply.lua
-- ARGV[2] the key of the first period that is wanted, or the place that the last reply returned; ARGV[3] the key of the
--         first one after the range
-- ARGV[4] '1' for an index, whose standings may have been deleted, '0' for the final periods
-- ARGV[5] how many lines the script looks at
--
-- Reply: {'STALE'} | {'OK', where to go on ('' at the end), key, …}
-- Example: KEYS st:{b:16:3} st:{b:16:3}:1:periods:week  ARGV '1-1' '2026-11-02' '2026-11-23' '1' '100'
--   reply {'OK', '', '2026-11-02', '2026-11-16'}

local HEAD, LIST, version, from, to, is_index = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local call = redis.call
load_periods()

if call('HGET', HEAD, 'version') ~= version then return {'STALE'} end
local reply = {'OK', ''}
for _ = 1, tonumber(ARGV[5]) do
  local line = call('ZRANGE', LIST, '[' .. from, '(' .. to, 'BYLEX', 'LIMIT', 0, 1)[1]
  if not line then return reply end
  local period = string.match(line, '^[^/]+')
  if not is_index or call('EXISTS', zset_of_period(LIST, line)) == 1 then
    reply[#reply + 1] = period
    -- After all cohorts of the period.
    from = period .. '/~'
  else
    from = line .. '\0'
  end
end
reply[2] = from
return reply
