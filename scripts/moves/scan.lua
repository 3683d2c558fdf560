-- scan.lua: reads some of the entries of a hash, a set or a sorted set.
-- Uses: lib/cursor.lua
--
-- Takes: 1 key, 3 arguments
-- KEYS[1] the key
-- ARGV[1] 'HSCAN', 'SSCAN' or 'ZSCAN'
-- ARGV[2] cursor ('0' at first; lib/cursor.lua), ARGV[3] about how many entries are looked at
--
-- Reply: {cursor ('0': this was the last part), the entries as the command returns them}
-- Example: a standing with ties by member:
--   KEYS st:{b}:1:s:day:2026-11-21  ARGV 'ZSCAN' '0' '300'  reply {'0', {'ann', '-5', 'bob', '-3'}}

local part, cursor = scan_on(ARGV[1], KEYS[1], ARGV[2], ARGV[3])
return {cursor, part}
