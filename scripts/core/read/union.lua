-- union.lua: estimates, by HyperLogLog, how many distinct voters the shards of a board have together.
--
-- KEYS[1]  board
-- KEYS[2…] as many keys as ARGV, for the time of the call
-- ARGV[1] and on: the reply of export_voters.lua for each shard
--
-- Reply: the number of distinct voters
-- Example: KEYS st:{b} st:{b}:1:sketch:0 st:{b}:1:sketch:1  ARGV 'HYLL…' 'HYLL…'  reply 3

if #KEYS < 2 or #KEYS ~= #ARGV + 1 then
  return redis.error_reply('ERR union.lua: 2 keys or more, an argument for each but the first')
end

for index, sketch in ipairs(ARGV) do redis.call('SET', KEYS[index + 1], sketch) end
local count = redis.call('PFCOUNT', unpack(KEYS, 2))
redis.call('DEL', unpack(KEYS, 2))
return count
