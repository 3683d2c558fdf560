-- lib/standing.lua: reading and changing the members of a standing, many at a time.
--
-- A standing is one to three keys, by the board's layout (src/domain/board.rs, `Layout`):
--   zset   sorted set: score -> member. Scores are integers, negated on boards where the greatest is first,
--          so that rank 1 always has the smallest. If `prefixed`, a member is six bytes of tie key
--          (big-endian; src/domain/ties.rs) and the id; otherwise the id alone.
--   hash   if `hashed`: id -> six bytes of tie key, eight bytes of score (big-endian double).
--   dense  if `dense`: sorted set of the distinct scores, each a member under its own value.
--
-- layout = {prefixed, hashed, dense: booleans; later: 1 where a greater tie key is a later time, else -1;
--           width: how many keys a standing has}
-- `time` is a tie key as a number below 2^48, nil where the layout is not hashed. Lua's `<` on strings
-- follows the server's locale, so tie keys are never compared as strings.
--
-- To call Redis from Lua costs more than most commands do. So a script loads the members it needs with one
-- command per standing, works on them in memory, and flushes what has changed with a few commands:
--   standing.members[id]   nil: not loaded; false: not listed; or {score, time, and as they are stored:
--                          old_score, old_time, nil where it is not listed}
--   standing.dirty         ids whose members have to be flushed

local call = redis.call

-- A standing by its keys.
local function open_standing(zset, hash, dense)
  return {zset = zset, hash = hash, dense = dense, members = {}, dirty = {}}
end

-- The standing whose keys begin at KEYS[first].
local function standing_at(layout, first)
  local dense = first + (layout.hashed and 2 or 1)
  return open_standing(KEYS[first], layout.hashed and KEYS[first + 1], layout.dense and KEYS[dense])
end

-- A score as Redis reads it in a range; the default conversion of Lua keeps 14 digits only.
local function number_text(score)
  return string.format('%.0f', score)
end

local function is_later(layout, a, b)
  return (a - b) * layout.later > 0
end

local function latest(layout, a, b)
  if a == nil or b == nil then return a or b end
  return is_later(layout, a, b) and a or b
end

local function zmember(layout, id, time)
  if layout.prefixed then return struct.pack('>I6', time) .. id end
  return id
end

-- Loads members, those that are not loaded yet, with one command.
local function load(layout, standing, ids)
  local members, missing = standing.members, {}
  for _, id in ipairs(ids) do
    if members[id] == nil then
      members[id] = false
      missing[#missing + 1] = id
    end
  end
  if #missing == 0 then return end
  if layout.hashed then
    local stored = call('HMGET', standing.hash, unpack(missing))
    for index, id in ipairs(missing) do
      if stored[index] then
        local time, score = struct.unpack('>I6d', stored[index])
        members[id] = {score = score, time = time, old_score = score, old_time = time}
      end
    end
  else
    local stored = call('ZMSCORE', standing.zset, unpack(missing))
    for index, id in ipairs(missing) do
      if stored[index] then
        local score = tonumber(stored[index])
        members[id] = {score = score, old_score = score}
      end
    end
  end
end

-- score, time of a member; nil where it is not listed.
local function get(layout, standing, id)
  local member = standing.members[id]
  if member == nil then
    load(layout, standing, {id})
    member = standing.members[id]
  end
  if member then return member.score, member.time end
end

-- Sets a loaded member's score and time; a score of nil takes it off the list. Nothing is written yet.
local function set(standing, id, score, time)
  local member = standing.members[id]
  if not member then
    if score == nil then return end
    member = {}
    standing.members[id] = member
  end
  member.score, member.time = score, time
  if not member.is_dirty then
    member.is_dirty = true
    standing.dirty[#standing.dirty + 1] = id
  end
end

-- Takes the scores off the distinct ones that no member has any more.
local function drop_distinct(standing, scores)
  for _, score in ipairs(scores) do
    local text = number_text(score)
    if call('ZCOUNT', standing.zset, text, text) == 0 then
      call('ZREM', standing.dense, text)
    end
  end
end

-- Writes what has changed. Returns true if the standing had no members before, so that its keys are new.
local function flush(layout, standing)
  if #standing.dirty == 0 then return false end
  local gone, scored, packed, unlisted = {}, {}, {}, {}
  local distinct, left, added = {}, {}, 0
  for _, id in ipairs(standing.dirty) do
    local member = standing.members[id]
    local score, time, old_score, old_time = member.score, member.time, member.old_score, member.old_time
    if old_score and (score == nil or (layout.prefixed and time ~= old_time)) then
      gone[#gone + 1] = zmember(layout, id, old_time)
    end
    if score == nil then
      if old_score then
        unlisted[#unlisted + 1] = id
        added = added - 1
      end
    elseif score ~= old_score or time ~= old_time then
      scored[#scored + 1] = score
      scored[#scored + 1] = zmember(layout, id, time)
      if layout.hashed then
        packed[#packed + 1] = id
        packed[#packed + 1] = struct.pack('>I6d', time, score)
      end
      if old_score == nil then added = added + 1 end
    end
    if layout.dense and score ~= old_score then
      if score then
        distinct[#distinct + 1] = score
        distinct[#distinct + 1] = number_text(score)
      end
      if old_score then left[#left + 1] = old_score end
    end
    member.old_score, member.old_time, member.is_dirty = score, time, false
  end
  standing.dirty = {}
  if #gone > 0 then call('ZREM', standing.zset, unpack(gone)) end
  if #scored > 0 then call('ZADD', standing.zset, unpack(scored)) end
  if #packed > 0 then call('HSET', standing.hash, unpack(packed)) end
  if layout.hashed and #unlisted > 0 then call('HDEL', standing.hash, unpack(unlisted)) end
  if #distinct > 0 then call('ZADD', standing.dense, unpack(distinct)) end
  drop_distinct(standing, left)
  return added > 0 and call('ZCARD', standing.zset) == added
end

-- How many entries, or distinct scores, are ahead of all that have this score. `ranking`: 'competition', 'dense'.
local function count_ahead(standing, ranking, score_text)
  local zset = ranking == 'dense' and standing.dense or standing.zset
  return call('ZCOUNT', zset, '-inf', '(' .. score_text)
end

-- The rank of a member that is stored with this score and time.
local function rank_of(layout, ranking, standing, id, score, time)
  if ranking == 'ordinal' then
    return call('ZRANK', standing.zset, zmember(layout, id, time)) + 1
  end
  return count_ahead(standing, ranking, number_text(score)) + 1
end
