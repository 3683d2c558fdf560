-- reviews.lua: lists members of one bucket by the reviews of their names, the oldest review first.
-- Uses: lib/name_words.lua
--
-- Takes: 3 keys, 4 arguments
-- KEYS[1] the members whose name is pending, by the instants of their reviews: sorted set; KEYS[2] approved; KEYS[3] blocked
-- ARGV[1] which of the three is listed
-- ARGV[2] an instant and ARGV[3] a member: the list begins after this place, which need not be taken. '-1' and '' begin it
-- ARGV[4] how many at most
--
-- Reply: {{how many the first set has, the second, the third}, {member, instant, …}}; members with the same instant are in
--        byte order
-- Example: KEYS st:{profiles:07}:pending st:{profiles:07}:approved st:{profiles:07}:blocked  ARGV '1' '1795262400000' 'ann' '2'
--   reply {{9, 0, 0}, {'bob', '1795262400000', 'cid', '1795262400500'}}

local counts = {}
for set = 1, 3 do counts[set] = redis.call('ZCARD', KEYS[set]) end
local listed, at, member, most = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

-- Any number of members may have the same instant, so the place is found by halving.
local low, high = 0, at < 0 and 0 or counts[listed]
while low < high do
  local middle = math.floor((low + high) / 2)
  local found = redis.call('ZRANGE', KEYS[listed], middle, middle, 'WITHSCORES')
  local own = tonumber(found[2])
  if own < at or own == at and not is_line_before(member, found[1]) then
    low = middle + 1
  else
    high = middle
  end
end
return {counts, redis.call('ZRANGE', KEYS[listed], low, low + most - 1, 'WITHSCORES')}
