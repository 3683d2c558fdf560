-- letters.lua: reads dead letters of a shard (end_queued.lua), oldest first.
-- Uses: lib/queue.lua
--
-- While data of an erased member remains, forget.lua has not removed all its letters. For these only the entries are returned.
--
-- Takes: 3 keys, 3 arguments
-- KEYS[1] board, KEYS[2] registry, from which the key of erasing members follows, KEYS[3] dead letters
-- ARGV[1] version, as in put.lua; ARGV[2] the first entry, '(' before it excludes it; ARGV[3] how many at most
--
-- Reply: {'STALE'} | {'OK', {entry, {name, value, …}}, …}; without names and values if it is about to be removed
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:dead  ARGV '1-1' '1795305600123-0' '100'
--   reply {'OK', {'1795305600123-0', {'reason', 'failed', …}}}

local BOARD, REGISTRY, DEAD_LETTERS = unpack(KEYS)
local version, first, count = unpack(ARGV)

local board = redis.call('HMGET', BOARD, 'version', 'erased')
if board[1] ~= version then return {'STALE'} end
local letters = redis.call('XRANGE', DEAD_LETTERS, first, '+', 'COUNT', count)
if #letters == 0 or not board[2] then return {'OK', unpack(letters)} end

load_queue()
local members = {}
for index, letter in ipairs(letters) do
  members[index] = member_of(fields_by_name(letter).event)
end
for index, mark in ipairs(erasing_marks(REGISTRY, members)) do
  local letter = letters[index]
  if mark and is_up_to(fields_by_name(letter).entry or '0-0', mark) then letters[index] = {letter[1], {}} end
end
return {'OK', unpack(letters)}
