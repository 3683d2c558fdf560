-- lib/nameless.lua: the lines of erased members in final standings.
-- Uses: lib/standing.lua
--
-- A final standing keeps the line of an erased member under an id that no member can have: a text that keeps its place
-- among entries with the same score and time, the character NAMELESS (ids have no control characters), and what
-- distinguishes this member's lines from others: a tag, which identifies its shard (src/domain/shard.rs), and a hash.

-- Sorts after all other characters.
local LAST = '\244\143\191\191'

-- The id of the entry of the sorted set with this rank, if it has this score and its member begins with `prefix`.
local function tied_id(standing, rank, score, prefix)
  local entry = rank >= 0 and call('ZRANGE', standing.zset, rank, rank, 'WITHSCORES') or {}
  local is_tied = entry[1] and tonumber(entry[2]) == score and string.sub(entry[1], 1, #prefix) == prefix
  return is_tied and string.sub(entry[1], #prefix + 1) or nil
end

-- A text that, with NAMELESS appended, sorts between two ids; nil for an absent bound.
local function text_between(lower, upper)
  if not lower then return '' end
  if upper and string.sub(upper, 1, #lower) == lower then return lower end
  local at = 1
  while upper and string.byte(lower, at) == string.byte(upper, at) do at = at + 1 end
  local function is_inner(index)
    local byte = string.byte(lower, index)
    return byte and byte >= 128 and byte < 192
  end
  while is_inner(at) do at = at - 1 end
  while is_inner(at + 1) do at = at + 1 end
  while string.sub(lower, at + 1, at + #LAST) == LAST do at = at + #LAST end
  return string.sub(lower, 1, at) .. LAST
end

-- Of two ids, where either may be missing, the one that sorts after the other, or before it.
local function later_id(one, other)
  if not (one and other) then return one or other end
  return is_before(one, other) and other or one
end

local function earlier_id(one, other)
  if not (one and other) then return one or other end
  return is_before(one, other) and one or other
end

-- The text that keeps the place of a loaded member. `elsewhere`: the ids of other shards between which it is, '' for none;
-- nil if there are no other shards.
local function text_of_place(standing, m, elsewhere)
  local score, prefix = standing.score[m], prefix_of(standing.layout, standing.time[m])
  local rank = call('ZRANK', standing.zset, prefix .. standing.names[m])
  if not rank then return '' end
  local lower, upper = tied_id(standing, rank - 1, score, prefix), tied_id(standing, rank + 1, score, prefix)
  if elsewhere then
    if elsewhere[1] ~= '' then lower = later_id(lower, elsewhere[1]) end
    if elsewhere[2] ~= '' then upper = earlier_id(upper, elsewhere[2]) end
  end
  return text_between(lower, upper)
end
