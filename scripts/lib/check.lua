-- lib/check.lua: what the steps of `standings check` have in common.
-- Uses: lib/changed.lua, lib/standing.lua, lib/derived.lua
--
-- A step compares and repairs in one script. So it never mistakes a change for a contradiction, nor repairs what is
-- consistent again. Each difference is a list: its code, its outcome, and what is stored on each side, as text ('' for
-- nothing). A repair never removes data that can be restored from other data: if each side may be the damaged one, both are left.

-- Left unrepaired | repaired | to be repaired by a call that may remove something.
local LEFT, REPAIRED, ASKED = 0, 1, 2
-- What a call may do, its argument `repair`: only look | also write what follows from other data | also remove.
local WRITE, REMOVE = 1, 2

local differences = {}
-- What this call may do, and whether something was left unrepaired: then nothing is derived from this standing.
local may, is_doubtful = 0, false

local function differs(code, outcome, ...)
  if outcome == REPAIRED then note_change() end
  if outcome == LEFT then is_doubtful = true end
  differences[#differences + 1] = {code, outcome, ...}
end

-- The outcome of a repair that only writes, if what it writes follows from other data.
local function writing(follows)
  return follows and may >= WRITE and REPAIRED or LEFT
end

-- The outcome of a repair that removes something, if other data shows that this is wrong or can be built again.
local function removing(is_certain)
  if not is_certain or may < WRITE then return LEFT end
  return may >= REMOVE and REPAIRED or ASKED
end

-- Carries out a repair, of one command, if its outcome is that it is repaired; returns the outcome.
local function by_command(outcome, ...)
  if outcome == REPAIRED then call(...) end
  return outcome
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

-- A stored number as text, even if it is not a number.
local function shown(number)
  if not number then return '' end
  if number ~= math.floor(number) or math.abs(number) > SCORE_MAX then
    return string.format('%.17g', number)
  end
  return number_text(number)
end
