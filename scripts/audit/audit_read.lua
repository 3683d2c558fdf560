-- audit_read.lua: reads lines of the audit log, newest first, and resolves their pseudonyms to members.
--
-- Takes: 4 keys, 5 arguments
-- KEYS[1] stream: the lines; KEYS[2] hash: id of a line -> outcome; KEYS[3] hash: member -> pseudonym; KEYS[4] hash:
--         pseudonym -> member
-- ARGV[1] '+' for the newest lines; '(' and an id for those before that one
-- ARGV[2] how many lines are looked at
-- ARGV[3] only lines of this caller, '' for all; ARGV[4] only lines that name this board, '' for all; ARGV[5] only lines
--         that name this member, '' for all
--
-- Reply: {the id of the last line that was looked at ('' if no older line exists), {id, intent, outcome ('' for none),
--         pseudonym, member ('' for one that is forgotten), …}, …}
-- Example: KEYS st:{boards}:audit st:{boards}:audit-outcomes st:{boards}:audit-pseudonyms st:{boards}:audit-members
--   ARGV '+' '100' '' 'run' ''  reply {'', {'1795305600123-0', '{…}', '{…}', 'm-5f', 'ann'}}

local LOG, OUTCOMES, PSEUDONYMS, MEMBERS = unpack(KEYS)
local first, count, by, board, member = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

-- For a member that was never named, or that is forgotten, a text that is not a pseudonym.
local pseudonym = member ~= '' and (redis.call('HGET', PSEUDONYMS, member) or SEPARATOR)

local function names(list, one) return string.find(list, SEPARATOR .. one .. SEPARATOR, 1, true) end

local function is_wanted(line)
  if by ~= '' and line.by ~= by then return false end
  if board ~= '' and not (names(line.boards, board) or names(line.boards, '*')) then return false end
  return not pseudonym or names(line.members, pseudonym)
end

local lines = redis.call('XREVRANGE', LOG, first, '-', 'COUNT', count)
local reply = {#lines == count and lines[count][1] or ''}
for _, entry in ipairs(lines) do
  local line = {}
  for place = 1, #entry[2], 2 do line[entry[2][place]] = entry[2][place + 1] end
  if is_wanted(line) then
    local found = {entry[1], line.json, redis.call('HGET', OUTCOMES, entry[1]) or ''}
    for one in string.gmatch(line.members, '[^' .. SEPARATOR .. ']+') do
      found[#found + 1], found[#found + 2] = one, redis.call('HGET', MEMBERS, one) or ''
    end
    reply[#reply + 1] = found
  end
end
return reply
