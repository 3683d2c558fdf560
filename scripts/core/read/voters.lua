-- voters.lua: estimates, by HyperLogLog, how many distinct voters some groups of periods have.
--
-- The script may write, because Redis stores the count with the key.
--
-- Takes: 1 key or more, 1 argument
-- KEYS[1]  board
-- KEYS[2…] voters (HyperLogLog), group by group
-- ARGV[1]  MessagePack of a list: how many keys each group has
--
-- Reply: the number of distinct voters of each group
-- Example: who has voted in two days, together:
--   KEYS  st:{b}  st:{b}:1:voters:day:2026-11-20  st:{b}:1:voters:day:2026-11-21
--   ARGV  {2}
--   reply {3}

local reply, first = {}, 2
for group, size in ipairs(cmsgpack.unpack(ARGV[1])) do
  reply[group] = redis.call('PFCOUNT', unpack(KEYS, first, first + size - 1))
  first = first + size
end
return reply
