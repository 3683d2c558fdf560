-- lib/hides.lua: changes which members are hidden in a shard.
-- Uses: lib/keys.lua, lib/capture.lua, lib/changed.lua
-- Loader: load_hides
--
-- A hide changes no standing. A shard stores in three keys which members are hidden, and reads skip these members
-- (lib/hidden.lua). The keys must agree. If they do not, a member that is hidden by one of them counts as hidden
-- (check_hides.lua):
--   hides    hash: member -> MessagePack of a map: id (of the hide), reason, by (who has hidden it), since, until (ms
--            since the epoch; absent: permanently)
--   hidden   sorted set: the same members, all under score 0, so in the order of their bytes
--   journal  sorted set: member -> the number of its last line, which is odd if that was a hide, and even if the member was
--            brought back
-- Two fields of the head go with them:
--   hides        the number of the last line. If it is absent, no member was ever hidden, and no script looks further
--   hides_from   up to this number the journal may lack members that were brought back. They are forgotten after a day
--                (prune_journal.lua), or earlier if the journal is long

-- How many lines the journal may have beyond twice the hidden members.
local JOURNAL_SPARE = 4096
-- How many lines one call looks at to shorten the journal.
local PRUNED_AT_ONCE = 64

-- The keys of the hides of the shard with this head and registry.
local function hides_of(head, registry)
  return {
    head = head, registry = registry, lines = beside_registry(registry, KIND_HIDES),
    hidden = beside_registry(registry, KIND_HIDDEN), journal = beside_registry(registry, KIND_HIDE_JOURNAL),
  }
end

-- Whether a hide has ended at this instant (ms). It holds until it is removed.
local function has_ended(hide, now)
  return hide['until'] and hide['until'] <= now
end

-- Forgets some members that were brought back long ago, if the journal is long. By then these lines are noted where results
-- are revised by them (src/periods/revisions/work.rs).
local function prune_journal(hides)
  local length, hidden = redis.call('ZCARD', hides.journal), redis.call('ZCARD', hides.hidden)
  if length <= 2 * hidden + JOURNAL_SPARE then return end
  local from = redis.call('HGET', hides.head, 'hides_from') or '0'
  local oldest = redis.call('ZRANGE', hides.journal, '(' .. from, '+inf', 'BYSCORE', 'LIMIT', 0, PRUNED_AT_ONCE,
    'WITHSCORES')
  for index = 1, #oldest, 2 do
    if oldest[index + 1] % 2 == 0 then redis.call('ZREM', hides.journal, oldest[index]) end
  end
  redis.call('HSET', hides.head, 'hides_from', oldest[#oldest])
end

-- Writes a line of the journal: from then on the hidden list of every standing is behind.
local function write_line(hides, member, is_hidden)
  note_change()
  changes_shown = true
  local number = (redis.call('HGET', hides.head, 'hides') or 0) + 1
  if (number % 2 == 1) ~= is_hidden then number = number + 1 end
  local text = string.format('%d', number)
  redis.call('HSET', hides.head, 'hides', text)
  redis.call('ZADD', hides.journal, text, member)
  redis.call('SADD', hides.registry, hides.lines, hides.hidden, hides.journal)
  prune_journal(hides)
end

-- Removes the journal's line of a member that was hidden and has no hide. All hidden lists are built from scratch.
local function forget_in_journal(hides, member)
  write_line(hides, member, false)
  redis.call('ZREM', hides.journal, member)
  redis.call('HSET', hides.head, 'hides_from', (redis.call('HGET', hides.head, 'hides')))
end

-- Stores the hide of a member, or removes it (nil). If that does not change whether it is hidden, no line is written.
local function set_hide(hides, member, packed)
  capture(KIND_HIDES, hides.lines, member)
  if packed then
    redis.call('HSET', hides.lines, member, packed)
    redis.call('ZADD', hides.hidden, 0, member)
    local line = redis.call('ZSCORE', hides.journal, member)
    if not line or line % 2 == 0 then write_line(hides, member, true) end
  else
    local removed = redis.call('HDEL', hides.lines, member) + redis.call('ZREM', hides.hidden, member)
    if removed > 0 then write_line(hides, member, false) end
  end
end
