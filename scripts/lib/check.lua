-- lib/check.lua: what the steps of `standings check` have in common.
-- Uses: lib/changed.lua, lib/standing.lua, lib/derived.lua
--
-- A step compares and repairs in one script. So it never mistakes a change for a contradiction, nor repairs what is
-- consistent again. Each difference is a list: its code, 1 if it was repaired, otherwise 0, and what is stored on each
-- side, as text ('' for nothing).

local differences = {}

local function differs(code, is_mended, ...)
  if is_mended then note_change() end
  differences[#differences + 1] = {code, is_mended and 1 or 0, ...}
end

-- Whether a definition uses a shard: the shard knows this definition or an earlier one, and no later one. The data of other
-- shards may be about to be unlinked.
local function is_in_use(version, generation, revision)
  local known_generation, known_revision = string.match(version or '', '^(.+)-(%d+)$')
  return known_generation == generation and tonumber(known_revision) <= revision
end

local function type_of(key)
  return call('TYPE', key).ok
end

-- The entries of a derived series' state (lib/derived.lua), nil where it can't be read.
local function readable_entries(state)
  local found = type_of(state)
  if found == 'none' then return {} end
  local is_read, entries = pcall(function() return found == 'string' and derived_entries(state) end)
  if not is_read or type(entries) ~= 'table' then return nil end
  for _, entry in pairs(entries) do
    if type(entry) ~= 'table' or type(entry.zset) ~= 'string' or not tonumber(entry.start) then return nil end
  end
  return entries
end

-- A stored number as text, even if it is none.
local function shown(number)
  if not number then return '' end
  if number ~= math.floor(number) or math.abs(number) > SCORE_MAX then
    return string.format('%.17g', number)
  end
  return number_text(number)
end
