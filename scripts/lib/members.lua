-- lib/members.lua: walks over the members of a standing, part by part.
-- Uses: lib/cursor.lua

-- Whether an id is that of a line of an erased member (lib/nameless.lua).
local function is_nameless(id)
  return string.find(id, NAMELESS, 1, true) ~= nil
end

-- About `count` fields of a hash from the cursor on, and the next cursor.
local function scan_fields(key, cursor, count)
  local flat, next_cursor = scan_on('HSCAN', key, cursor, count)
  local fields = {}
  for index = 1, #flat, 2 do fields[#fields + 1] = flat[index] end
  return fields, next_cursor
end

-- About `count` members from the cursor on, as three parallel lists: ids, scores and times; the next cursor; and the list
-- of their data, nil unless the layout has it. If there is a hash it is read, because that takes half the time.
local function scan_members(standing, cursor, count)
  local ids, scores, times = {}, {}, {}
  if standing.layout.hashed then
    local flat, next_cursor = scan_on('HSCAN', standing.hash, cursor, count)
    local unpack_member, data = struct.unpack, standing.layout.data and {}
    for index = 1, #flat / 2 do
      ids[index] = flat[2 * index - 1]
      times[index], scores[index] = unpack_member(ENTRY_FORM, flat[2 * index])
      if data then data[index] = string.sub(flat[2 * index], ENTRY_BYTES + 1) end
    end
    return ids, scores, times, next_cursor, data
  end
  local flat, next_cursor = scan_on('ZSCAN', standing.zset, cursor, count)
  for index = 1, #flat / 2 do
    ids[index], scores[index] = flat[2 * index - 1], tonumber(flat[2 * index])
  end
  return ids, scores, times, next_cursor
end
