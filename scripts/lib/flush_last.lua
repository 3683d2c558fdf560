-- lib/flush_last.lua: writes a standing that may lose its last entry.
-- Uses: lib/standing.lua

-- Writes what has changed; a standing without entries leaves nothing. Returns whether its keys are new.
local function flush_last(standing, registry)
  if #standing.touched == 0 then return false end
  local is_new = flush(standing)
  if count_members(standing) > 0 then return is_new end
  unlink_standing(standing)
  -- The keys of a derived standing stay in the registry for as long as its state names them.
  if standing.kind ~= KIND_DERIVED then call('SREM', registry, unpack(keys_of(standing))) end
  return false
end
