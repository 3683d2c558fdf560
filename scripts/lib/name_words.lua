-- lib/name_words.lua: the index of the words of members' names. Moderators find members with it.
--
-- A line is `word`, the separator and `member`. Lines are in blocks: an entry in a sorted set takes about 100 bytes more than its
-- text, so an entry for each line would take three times the memory. A block is an entry under score 0: its bound, a line
-- break, and its lines in any order, each with a line break. It has the lines from its bound up to the bound of the next
-- block, in byte order. The bound of the first block is empty or smaller than all lines.

-- A block that becomes larger is split.
local BLOCK_BYTES_MAX = 2048

-- The block that a line belongs to; `nil` if there is none.
local function block_of(index, line)
  -- A bound ends with a line break, which is smaller than any character of a line.
  return redis.call('ZRANGE', index, '[' .. line .. '\n\255', '-', 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
end

-- Whether a line is before another in byte order. `<` would follow the locale of the server.
local function is_line_before(one, other)
  for at = 1, math.min(#one, #other) do
    local own, its = string.byte(one, at), string.byte(other, at)
    if own ~= its then return own < its end
  end
  return #one < #other
end

-- The halves of a block.
local function split_block(block)
  local bound, lines = string.match(block, '^([^\n]*)\n'), {}
  for line in string.gmatch(block, '\n([^\n]+)') do lines[#lines + 1] = line end
  table.sort(lines, is_line_before)
  local middle = math.floor(#lines / 2) + 1
  return bound .. '\n' .. table.concat(lines, '\n', 1, middle - 1) .. '\n',
    lines[middle] .. '\n' .. table.concat(lines, '\n', middle) .. '\n'
end

local function add_line(index, line)
  local block = block_of(index, line) or '\n'
  if string.find(block, '\n' .. line .. '\n', 1, true) then return end
  redis.call('ZREM', index, block)
  block = block .. line .. '\n'
  if #block <= BLOCK_BYTES_MAX then
    redis.call('ZADD', index, 0, block)
  else
    local lower, upper = split_block(block)
    redis.call('ZADD', index, 0, lower, 0, upper)
  end
end

local function remove_line(index, line)
  local block = block_of(index, line)
  if not block then return end
  local first, last = string.find(block, '\n' .. line .. '\n', 1, true)
  if not first then return end
  redis.call('ZREM', index, block)
  local left = string.sub(block, 1, first) .. string.sub(block, last + 1)
  -- Without lines it would begin with its bound and end there.
  if string.find(left, '\n', 1, true) < #left then redis.call('ZADD', index, 0, left) end
end
