-- news.lua: reads which boards, or which API keys, have changed since an instance last asked.
--
-- Takes: 3 keys, 1 argument
-- KEYS[1] ids by the sequence number of their last change; KEYS[2] the last sequence number; KEYS[3] the epoch
--         of these numbers (lib/announce.lua)
-- ARGV[1] the last number that the instance knows
--
-- Reply: {epoch ('' for none), the last number, the ids with a greater number than the instance's}
-- Example: KEYS st:{boards}:changes st:{boards}:sequence st:{boards}:epoch  ARGV '1'
--   reply {'1795305600.123456', '2', {'b'}}

local CHANGES, SEQUENCE, EPOCH, known = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local ids = redis.call('ZRANGE', CHANGES, '(' .. known, '+inf', 'BYSCORE')
return {redis.call('GET', EPOCH) or '', redis.call('GET', SEQUENCE) or '0', ids}
