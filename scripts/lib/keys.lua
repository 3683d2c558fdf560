-- lib/keys.lua: the keys that scripts derive from others. All other keys are given to them, or were noted.
-- src/redis/keys.rs has the form of every key; the constants KIND_… come from src/redis/kinds.rs.

-- The hash of the members of the standing with this sorted set, where its layout has one.
local function members_of(zset)
  return zset .. ':' .. KIND_MEMBERS
end

-- The keys of the standing with this sorted set (lib/standing.lua).
local function keys_of_zset(zset, layout)
  local function part(is_there, kind) return is_there and zset .. ':' .. kind or nil end
  return {
    zset = zset, hash = part(layout.hashed, KIND_MEMBERS), dense = part(layout.dense, KIND_DISTINCT),
    total = part(layout.summed, KIND_TOTAL),
  }
end

-- The voters of a member in a period, derived from those of the period.
local function voters_of_member(voters, id)
  return voters .. SEPARATOR .. id
end

-- The key of a kind that a shard has once, derived from the shard's registry.
local function beside_registry(registry, kind)
  return string.sub(registry, 1, -1 - #KIND_REGISTRY) .. kind
end

-- The trail of the shard with this registry (lib/trail.lua).
local function trail_of(registry)
  return beside_registry(registry, KIND_TRAIL .. ':trail')
end

-- The index of the reward lines with this key, derived from the shard's registry.
local function index_of_rewards(registry, lines)
  local prefix = beside_registry(registry, '')
  return prefix .. KIND_REWARD_INDEX .. string.sub(lines, #prefix + #KIND_REWARDS + 1)
end

-- The hidden list of the standing with this sorted set, the scores that only hidden members have, and their state.
local function hidden_keys_of(zset)
  return {zset .. ':' .. KIND_HIDDEN_LIST, zset .. ':' .. KIND_HIDDEN_SCORES, zset .. ':' .. KIND_HIDDEN_STATE}
end
