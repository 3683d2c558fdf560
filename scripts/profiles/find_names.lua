-- find_names.lua: finds members of one bucket by the beginning of a word of their names.
-- Uses: lib/name_words.lua
--
-- Takes: 2 keys, 2 arguments
-- KEYS[1] the index of words: sorted set; KEYS[2] its state
-- ARGV[1] how the word begins
-- ARGV[2] how many members are enough
--
-- Reply: {the state, '' if there is no index, {line…}}: all lines that begin like this, or the first ones with at least so
--        many members
-- Example: KEYS st:{profiles:07}:words st:{profiles:07}:words-state  ARGV 'smi' '50'
--   reply {'filled', {'smith␟ann'}}

local INDEX, STATE = unpack(KEYS)
local begin, enough = ARGV[1], tonumber(ARGV[2])
-- How many blocks one command reads.
local BLOCKS = 8

local lines, members, count = {}, {}, 0
local function take(block)
  for line in string.gmatch(block, '\n([^\n]+)') do
    if string.sub(line, 1, #begin) == begin then
      lines[#lines + 1] = line
      local member = string.sub(line, string.find(line, SEPARATOR, 1, true) + 1)
      if not members[member] then
        members[member] = true
        count = count + 1
      end
    end
  end
end

local first = block_of(INDEX, begin)
if first then take(first) end
local from = first and '(' .. first or '[' .. begin
local blocks
repeat
  blocks = count < enough and redis.call('ZRANGE', INDEX, from, '[' .. begin .. '\255', 'BYLEX', 'LIMIT', 0, BLOCKS) or {}
  for _, block in ipairs(blocks) do
    if count < enough then take(block) end
  end
  from = '(' .. (blocks[#blocks] or '')
until #blocks < BLOCKS
return {redis.call('GET', STATE) or '', lines}
