-- lib/changed.lua: how often what reads of a shard show has changed.
--
-- The field `changed` of the head is `number history`. The number grows by 1 with each call that changes a standing, or
-- which members are shown. The history is that of the server that wrote it: the first 12 digits of its replication id. A
-- server gets a new one when it is started or promoted, and within one history writes have one order. So two different
-- contents never have the same field: after a loss of data the number may repeat, but under another history. A replica has
-- the field of its primary, since it is data; and a slot that moves takes it along.
--
-- KEYS[1] of every script that changes a standing is the head of the shard.

-- The field after this call, nil if the call has changed nothing yet; and before it (false: absent; nil: not read).
local changed, changed_before
-- Whether this call changes which members are shown: no link of a trail says so (lib/trail.lua).
local changes_shown

-- Notes that this call changes what reads show.
local function note_change()
  if changed then return end
  if changed_before == nil then changed_before = redis.call('HGET', KEYS[1], 'changed') end
  local number = changed_before and string.match(changed_before, '^%d+') or 0
  local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '0'
  changed = string.format('%d %s', number + 1, string.sub(history, 1, 12))
  redis.call('HSET', KEYS[1], 'changed', changed)
end
