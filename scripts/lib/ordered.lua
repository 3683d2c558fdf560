-- lib/ordered.lua: an ordered set of texts of any size, in chunks.
-- Uses: lib/keys.lua, lib/standing.lua
-- Loader: load_history
--
-- One sorted set would take 120 bytes a text, and so would need more memory than what it is an index of. A set has two keys:
--   directory   sorted set, all scores 0, so that Redis orders by bytes: for each chunk its first text, a byte 0, and its
--               number, five bytes
--   chunks      hash: number of a chunk -> its texts, in any order, each after its length (two bytes)
-- No text of a chunk is before its first text, or after the first text of the next chunk. A chunk is never empty, and the
-- directory has exactly its first text: so a text that was removed is nowhere. No text may be the beginning of another one
-- that goes on with a byte 0 or 1. The head counts the numbers that were given out.

-- A chunk with more bytes is split.
local CHUNK_BYTES = 1000
-- A text after all others. A sorted set with one this long is no list from the first, and so adding to it takes no search.
local LONG_TEXT = string.rep('\255', 65)
-- How many lines of a directory one command reads.
local LINES_MAX = 32
-- The bytes of a line after the first text.
local NUMBER_FORM, NUMBER_BYTES = '>I5', 6
local LENGTH_FORM, LENGTH_BYTES = '>I2', 2

local function open_ordered(head, registry, name)
  local directory = beside_registry(registry, KIND_EVENT_INDEX) .. ':' .. name
  return {head = head, registry = registry, directory = directory, chunks = directory .. ':chunks'}
end

-- The number of a chunk, from its line in the directory.
local function number_in(line)
  return (struct.unpack(NUMBER_FORM, line, #line - NUMBER_BYTES + 2))
end

-- The first text of a chunk, from its line in the directory.
local function first_in(line)
  return string.sub(line, 1, -1 - NUMBER_BYTES)
end

local function line_of_chunk(first, number)
  return first .. '\0' .. struct.pack(NUMBER_FORM, number)
end

-- The line of the chunk in which a text is, or has to be put, nil if there is no chunk; and whether it would be the first.
local function line_for(ordered, text)
  local before = call('ZREVRANGEBYLEX', ordered.directory, '(' .. text .. '\1', '-', 'LIMIT', 0, 1)[1]
  if before then return before, false end
  return call('ZRANGE', ordered.directory, 0, 0)[1], true
end

local function pack_text(text)
  return struct.pack(LENGTH_FORM, #text) .. text
end

-- The texts of a chunk, in any order.
local function texts_in(chunk)
  local texts, place = {}, 1
  while place <= #chunk do
    local from = place + LENGTH_BYTES
    place = from + struct.unpack(LENGTH_FORM, chunk, place)
    texts[#texts + 1] = string.sub(chunk, from, place - 1)
  end
  return texts
end

-- Texts by the lines of their chunks, each list with `is_first` if one of them is before the first text of the chunk; a list
-- of these lines; and the last line of the directory, nil if there is none.
local function by_lines(ordered, texts)
  local last = call('ZRANGE', ordered.directory, -1, -1)[1]
  local last_first, of_lines, lines = last and first_in(last), {}, {}
  for _, text in ipairs(last and texts or {}) do
    local line, is_first = last, false
    if is_before(text, last_first) then line, is_first = line_for(ordered, text) end
    local of_line = of_lines[line]
    if not of_line then
      of_line = {}
      of_lines[line], lines[#lines + 1] = of_line, line
    end
    of_line[#of_line + 1] = text
    of_line.is_first = of_line.is_first or is_first
  end
  return of_lines, lines, last
end

-- The chunks with these lines, in their order.
local function chunks_with(ordered, lines)
  local numbers = {}
  for index, line in ipairs(lines) do numbers[index] = number_in(line) end
  return call('HMGET', ordered.chunks, unpack(numbers))
end

-- Sorts texts in the order of their bytes: Redis does so many times faster than Lua. (SORT is a command that the service may
-- not call.)
local function sort_texts(ordered, texts)
  if #texts == 1 then return texts end
  local scratch, members = beside_registry(ordered.registry, KIND_SCRATCH), {0, LONG_TEXT}
  for index, text in ipairs(texts) do members[2 * index + 1], members[2 * index + 2] = 0, text end
  call('ZADD', scratch, unpack(members))
  local in_order = call('ZRANGE', scratch, 0, -2)
  call('DEL', scratch)
  return in_order
end

-- Divides sorted texts into chunks, each {first text, content}. The last chunk of a set stays full, since most texts are
-- added at the end.
local function divide_texts(texts, is_last)
  local bytes_max, parts = is_last and CHUNK_BYTES or CHUNK_BYTES / 2, {}
  local packed, bytes = {}, 0
  for index, text in ipairs(texts) do
    packed[#packed + 1], bytes = pack_text(text), bytes + LENGTH_BYTES + #text
    local next_text = texts[index + 1]
    if not next_text or bytes + LENGTH_BYTES + #next_text > bytes_max then
      parts[#parts + 1] = {texts[index + 1 - #packed], table.concat(packed)}
      packed, bytes = {}, 0
    end
  end
  return parts
end

-- Stores these parts as chunks, the first under this number, the others under new ones.
local function put_chunks(ordered, parts, number)
  local last_number = call('HINCRBY', ordered.head, 'event_chunks', #parts)
  local chunks, lines = {}, {}
  for index, part in ipairs(parts) do
    local own = index == 1 and number or last_number - #parts + index
    chunks[2 * index - 1], chunks[2 * index] = own, part[2]
    lines[2 * index - 1], lines[2 * index] = 0, line_of_chunk(part[1], own)
  end
  call('HSET', ordered.chunks, unpack(chunks))
  call('ZADD', ordered.directory, unpack(lines))
  if not number then call('SADD', ordered.registry, ordered.directory, ordered.chunks) end
end

-- Adds texts that are not there yet.
local function add_ordered(ordered, texts)
  if #texts == 0 then return end
  local of_lines, lines, last = by_lines(ordered, texts)
  if not last then return put_chunks(ordered, divide_texts(sort_texts(ordered, texts), true)) end
  local grown = {}
  for index, chunk in ipairs(chunks_with(ordered, lines)) do
    local line, number, with_added = lines[index], number_in(lines[index]), {chunk}
    local added = of_lines[line]
    for place, text in ipairs(added) do with_added[place + 1] = pack_text(text) end
    with_added = table.concat(with_added)
    if added.is_first or #with_added > CHUNK_BYTES then
      call('ZREM', ordered.directory, line)
      put_chunks(ordered, divide_texts(sort_texts(ordered, texts_in(with_added)), line == last), number)
    else
      grown[#grown + 1], grown[#grown + 2] = number, with_added
    end
  end
  if #grown > 0 then call('HSET', ordered.chunks, unpack(grown)) end
end

-- Adds texts in order that are after all that are there.
local function append_ordered(ordered, texts)
  local last = call('ZRANGE', ordered.directory, -1, -1)[1]
  local chunk = last and chunks_with(ordered, {last})[1] or ''
  local grown, bytes, place = {chunk}, #chunk, 1
  while last and texts[place] and bytes + LENGTH_BYTES + #texts[place] <= CHUNK_BYTES do
    grown[#grown + 1], bytes = pack_text(texts[place]), bytes + LENGTH_BYTES + #texts[place]
    place = place + 1
  end
  if place > 1 then call('HSET', ordered.chunks, number_in(last), table.concat(grown)) end
  if place <= #texts then put_chunks(ordered, divide_texts({unpack(texts, place)}, true)) end
end

-- The texts of a chunk without these, what is left packed, and whether the first text of the chunk was one of these.
local function texts_without(chunk, gone, first)
  local is_gone, kept, packed = {}, {}, {}
  for _, text in ipairs(gone) do is_gone[text] = true end
  for _, text in ipairs(texts_in(chunk)) do
    if not is_gone[text] then kept[#kept + 1], packed[#packed + 1] = text, pack_text(text) end
  end
  return kept, table.concat(packed), is_gone[first]
end

-- Removes texts, as far as they are there.
local function remove_ordered(ordered, texts)
  local of_lines, lines, last = by_lines(ordered, texts)
  if #texts == 0 or not last then return end
  for index, chunk in ipairs(chunks_with(ordered, lines)) do
    local line, first, number = lines[index], first_in(lines[index]), number_in(lines[index])
    local kept, packed, is_first_gone = texts_without(chunk, of_lines[line], first)
    if #kept == 0 then
      call('HDEL', ordered.chunks, number)
      call('ZREM', ordered.directory, line)
    else
      call('HSET', ordered.chunks, number, packed)
      if is_first_gone then
        call('ZREM', ordered.directory, line)
        call('ZADD', ordered.directory, 0, line_of_chunk(sort_texts(ordered, kept)[1], number))
      end
    end
  end
  if call('EXISTS', ordered.directory) == 0 then call('SREM', ordered.registry, ordered.directory, ordered.chunks) end
end

-- Whether a text is there.
local function has_text(ordered, text)
  local line = line_for(ordered, text)
  for _, found in ipairs(line and texts_in(chunks_with(ordered, {line})[1] or '') or {}) do
    if found == text then return true end
  end
  return false
end

-- Adds the texts of a chunk before `high` (exclusive) and from `low` on to a list, the last first, until it has `count`.
-- Returns whether it has, or one is before `low`.
local function add_last(texts, chunk, high, low, count)
  local found = texts_in(chunk)
  table.sort(found, is_before)
  for place = #found, 1, -1 do
    local text = found[place]
    if is_before(text, low) or #texts == count then return true end
    if is_before(text, high) then texts[#texts + 1] = text end
  end
  return false
end

-- Up to `count` texts before `high` (exclusive) and from `low` on, the last first.
local function texts_before(ordered, high, low, count)
  local texts, bound = {}, '(' .. high
  while #texts < count do
    local lines = call('ZREVRANGEBYLEX', ordered.directory, bound, '-', 'LIMIT', 0, LINES_MAX)
    if #lines == 0 then return texts end
    for _, chunk in ipairs(chunks_with(ordered, lines)) do
      if add_last(texts, chunk, high, low, count) then return texts end
    end
    bound = '(' .. lines[#lines]
  end
  return texts
end

-- The first `count` texts after `low` (exclusive; '' for the beginning) and before `high`.
local function texts_after(ordered, low, high, count)
  local texts, bound = {}, low == '' and '-' or '[' .. (line_for(ordered, low) or '')
  for _, line in ipairs(call('ZRANGEBYLEX', ordered.directory, bound, '+', 'LIMIT', 0, count + 1)) do
    local found = texts_in(chunks_with(ordered, {line})[1])
    table.sort(found, is_before)
    for _, text in ipairs(found) do
      if #texts == count or not is_before(text, high) then return texts end
      if low == '' or is_before(low, text) then texts[#texts + 1] = text end
    end
  end
  return texts
end
