-- lib/generation.lua: whether a head belongs to a board of this generation, whatever its revision.

local function is_of_generation(version, generation)
  return version and string.match(version, '^%d+') == generation
end
