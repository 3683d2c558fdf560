-- letters.lua: reads dead letters of a shard (end_queued.lua), the oldest first.
--
-- While something is left of an erased member, forget.lua has not come to all of its letters. Of these only the entries are told.
--
-- KEYS[1] board, KEYS[2] registry, KEYS[3] dead letters; who is being erased lies beside the registry
-- ARGV[1] version, as in put.lua; ARGV[2] the entry that they begin with, or behind which they do; ARGV[3] how many at the most
--
-- Reply: {'STALE'} | {'OK', {entry, {name, value, …}}, …}; nothing instead of names and values: it is about to be removed
-- Example: KEYS st:{b} st:{b}:1:keys st:{b}:1:dead  ARGV '1-1' '1795305600123-0' '100'
--   reply {'OK', {'1795305600123-0', {'reason', 'failed', …}}}

if #KEYS ~= 3 or #ARGV ~= 3 then return redis.error_reply('ERR letters.lua: 3 keys, 3 arguments') end
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
