-- lib/member_index.lua: an ordered set of texts for each member.
-- Uses: lib/keys.lua, lib/ordered.lua
-- Loader: load_history
--
-- Most members have few texts, and these cost one field. An index has two parts:
--   few    hash: member -> its texts in any order, packed as in a chunk of lib/ordered.lua; '' once they need more
--          bytes than a chunk has: then they are in `many`
--   many   ordered set: the texts of members with '', each after its member and SEPARATOR
-- A member is in `few` exactly if it has a text.

local function open_member_index(head, registry, name)
  local many = open_ordered(head, registry, name .. ':many')
  return {registry = registry, few = beside_registry(registry, KIND_EVENT_INDEX) .. ':' .. name, many = many}
end

local function after_member(member, text)
  return member .. SEPARATOR .. text
end

-- Adds texts that are not there yet. `packed`: by member, its texts, packed.
local function add_to_members(index, packed)
  local members, fields, many = {}, {}, {}
  for member in pairs(packed) do members[#members + 1] = member end
  if #members == 0 then return end
  for place, before in ipairs(call('HMGET', index.few, unpack(members))) do
    local member = members[place]
    local grown = (before or '') .. packed[member]
    if before == '' or #grown > CHUNK_BYTES then
      for _, text in ipairs(texts_in(grown)) do many[#many + 1] = after_member(member, text) end
      grown = ''
    end
    if grown ~= before then fields[#fields + 1], fields[#fields + 2] = member, grown end
  end
  if #fields > 0 then
    local added = call('HSET', index.few, unpack(fields))
    if call('HLEN', index.few) == added then call('SADD', index.registry, index.few) end
  end
  add_ordered(index.many, many)
end

-- Up to `count` texts of a member before `high` (exclusive) and from `low` on, the last first.
local function texts_of_member(index, member, high, low, count)
  local packed, texts = call('HGET', index.few, member), {}
  if packed == '' then
    texts = texts_before(index.many, after_member(member, high), after_member(member, low), count)
    for place, text in ipairs(texts) do texts[place] = string.sub(text, #member + 2) end
  elseif packed then
    add_last(texts, packed, high, low, count)
  end
  return texts
end

-- Removes texts of a member, as far as they are there.
local function remove_from_member(index, member, gone)
  local packed = call('HGET', index.few, member)
  if not packed then return end
  local rest
  if packed == '' then
    for place, text in ipairs(gone) do gone[place] = after_member(member, text) end
    remove_ordered(index.many, gone)
    rest = texts_of_member(index, member, '\255', '', 1)[1] and ''
  else
    local kept, others = texts_without(packed, gone)
    rest = #kept > 0 and others
  end
  if rest then
    call('HSET', index.few, member, rest)
  else
    call('HDEL', index.few, member)
    if call('EXISTS', index.few) == 0 then call('SREM', index.registry, index.few) end
  end
end
