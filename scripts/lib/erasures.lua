-- lib/erasures.lua: which members of a shard were erased.
-- Uses: lib/keys.lua, lib/capture.lua
-- Loader: load_hides
--
-- An *erasure* has a number, which is a stamp, and an instant. Everything that was written of the member before counts as
-- absent from then on; forget.lua removes it in bounded steps. Later data starts from nothing. A shard has two keys for
-- this:
--   erased    hash: name of the member -> its last erasure. The name is a keyed hash of the member's id, since the shard
--             has to forget the id. '>I7I7I4B': number; instant, as a tie key of `ties: first`; how often the remaining
--             fields have changed; 1 if the member has had data since; and then the hide of the member as lib/hides.lua
--             stores it, or nothing. The number 0 is for a member that was never erased here: the line has nothing but a
--             hide, ordered for all boards before the member was erased (keep_hides.lua)
--   erasing   hash: member whose data may remain -> cursor of the walk over the registry, or before that how far the walks
--             over the queue and the dead letters have come (forget.lua); and, if its lines in final standings stay, their
--             tag, their salt (lib/nameless.lua), and the barrier of the shard when the member was erased ('' for none),
--             each after a space: lines stay of periods that were closed by then
-- The field `erased` of the head has the key for the names, and so has the line of `erased` without a name. If the field is
-- absent, no member was ever erased, and no script looks further.
--
-- While data of a member may remain, the journal has the member as hidden, so that no read shows it. No script writes
-- anything of it: callers that want to complete the removal first.
--
-- A hide outlives an erasure. Until the member has data again, its hide is stored with the erasure, even one that is
-- ordered meanwhile.

local STORED_FORM, STORED_BYTES = '>I7I7I4B', 19

local function erased_name(key, id)
  return redis.sha1hex(key .. id)
end

local function unpack_erasure(stored)
  local number, instant, changes, has_data = struct.unpack(STORED_FORM, stored)
  return {
    number = number, instant = number > 0 and instant or -1, changes = changes, has_data = has_data == 1,
    hide = string.sub(stored, STORED_BYTES + 1),
  }
end

-- Gives a shard the key for the names.
local function begin_erasures(head, registry, key)
  local erased = beside_registry(registry, KIND_ERASED)
  redis.call('HSET', head, 'erased', key)
  redis.call('HSET', erased, '', key)
  redis.call('SADD', registry, erased)
  capture(KIND_ERASED, erased, '')
end

-- Stores an erasure {name, number, instant, changes, has_data, hide}.
local function store_erasure(registry, erasure)
  local key, instant = beside_registry(registry, KIND_ERASED), math.max(erasure.instant, 0)
  local stored = struct.pack(STORED_FORM, erasure.number, instant, erasure.changes, erasure.has_data and 1 or 0)
  redis.call('HSET', key, erasure.name, stored .. erasure.hide)
  redis.call('SADD', registry, key)
  capture(KIND_ERASED, key, erasure.name)
end

-- Sets the hide that is stored with an erasure, '' for none.
local function keep_hide(registry, erasure, hide)
  erasure.hide, erasure.changes = hide, erasure.changes + 1
  store_erasure(registry, erasure)
end

-- Whether of two lines of one member this one is the later.
local function is_later_line(erasure, other)
  if erasure.number ~= other.number then return erasure.number > other.number end
  return erasure.changes > other.changes
end

-- The erasures of those of these members that were erased, by their numbers, with `name` and `is_pending`: whether data of
-- the member may remain. `key`: the field `erased` of the head.
local function load_erasures(registry, key, names)
  local hashed, found, members, ids = {}, {}, {}, {}
  for m, id in ipairs(names) do hashed[m] = erased_name(key, id) end
  if #hashed == 0 then return found end
  for m, stored in ipairs(redis.call('HMGET', beside_registry(registry, KIND_ERASED), unpack(hashed))) do
    if stored then
      found[m] = unpack_erasure(stored)
      found[m].name = hashed[m]
      members[#members + 1], ids[#ids + 1] = m, names[m]
    end
  end
  if #ids > 0 then
    for place, cursor in ipairs(redis.call('HMGET', beside_registry(registry, KIND_ERASING), unpack(ids))) do
      found[members[place]].is_pending = cursor and true
    end
  end
  return found
end
