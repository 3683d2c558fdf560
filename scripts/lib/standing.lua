-- lib/standing.lua: reading and writing one member of one standing.
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

local call = redis.call

-- The standing whose keys begin at KEYS[first].
local function standing_at(layout, first)
  local dense = first + (layout.hashed and 2 or 1)
  return {
    zset = KEYS[first],
    hash = layout.hashed and KEYS[first + 1],
    dense = layout.dense and KEYS[dense],
  }
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

-- score, time of a member; nil where it is not listed.
local function read(layout, standing, id)
  if layout.hashed then
    local packed = call('HGET', standing.hash, id)
    if packed then
      local time, score = struct.unpack('>I6d', packed)
      return score, time
    end
  else
    local score = call('ZSCORE', standing.zset, id)
    if score then return tonumber(score) end
  end
end

-- Takes a score off the distinct ones when its last member has gone.
local function drop_distinct(layout, standing, score)
  if not layout.dense then return end
  local text = number_text(score)
  if call('ZCOUNT', standing.zset, text, text) == 0 then
    call('ZREM', standing.dense, text)
  end
end

-- Sets a member's score and time; `old_score`, `old_time` are what `read` gave.
-- Returns true when this is the standing's first member, so that its keys have just come to be.
local function write(layout, standing, id, score, time, old_score, old_time)
  if layout.prefixed and old_time and old_time ~= time then
    call('ZREM', standing.zset, zmember(layout, id, old_time))
  end
  call('ZADD', standing.zset, score, zmember(layout, id, time))
  if layout.hashed then
    call('HSET', standing.hash, id, struct.pack('>I6d', time, score))
  end
  if layout.dense and score ~= old_score then
    local text = number_text(score)
    call('ZADD', standing.dense, text, text)
    if old_score then drop_distinct(layout, standing, old_score) end
  end
  return old_score == nil and call('ZCARD', standing.zset) == 1
end

-- Takes a member out of a standing.
local function remove(layout, standing, id, old_score, old_time)
  call('ZREM', standing.zset, zmember(layout, id, old_time))
  if layout.hashed then call('HDEL', standing.hash, id) end
  drop_distinct(layout, standing, old_score)
end

-- How many entries, or distinct scores, are ahead of all that have this score. `ranking`: 'competition', 'dense'.
local function count_ahead(standing, ranking, score_text)
  local zset = ranking == 'dense' and standing.dense or standing.zset
  return call('ZCOUNT', zset, '-inf', '(' .. score_text)
end

-- The rank of a member that is listed with this score and time.
local function rank_of(layout, ranking, standing, id, score, time)
  if ranking == 'ordinal' then
    return call('ZRANK', standing.zset, zmember(layout, id, time)) + 1
  end
  return count_ahead(standing, ranking, number_text(score)) + 1
end
