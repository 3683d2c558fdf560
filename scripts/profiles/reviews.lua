-- reviews.lua: lists members of one bucket by the reviews of their names, the oldest review first.
-- Uses: lib/name_words.lua
--
-- Takes: 1 key, 3 arguments
-- KEYS[1] the members whose name has this review, by its instant: sorted set
-- ARGV[1] an instant and ARGV[2] a member: the list begins after this place, which need not be taken. '-1' and '' begin it
-- ARGV[3] how many at most
--
-- Reply: {member, instant, …}; members with the same instant are in byte order
-- Example: KEYS st:{profiles:07}:pending  ARGV '1795262400000' 'ann' '2'  reply {'bob', '1795262400000', 'cid', '1795262400500'}

local REVIEWS = KEYS[1]
local at, member, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

-- Any number of members may have the same instant, so the place is found by halving.
local low, high = 0, redis.call('ZCARD', REVIEWS)
while low < high do
  local middle = math.floor((low + high) / 2)
  local found = redis.call('ZRANGE', REVIEWS, middle, middle, 'WITHSCORES')
  local own = tonumber(found[2])
  if own < at or own == at and not is_line_before(member, found[1]) then
    low = middle + 1
  else
    high = middle
  end
end
return redis.call('ZRANGE', REVIEWS, low, low + count - 1, 'WITHSCORES')
