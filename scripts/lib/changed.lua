-- lib/changed.lua: how often that has changed what reads of a shard show.
--
-- The field `changed` of the head is `number history`. The number grows by 1 with each call that changes a standing, or who is
-- shown. The history is that of the server which wrote it: the first 12 digits of its replication id. A server gets another
-- one when it is started or promoted, and within one history there is one order of writes. So no two contents ever have the
-- same field: after a loss of data the number may come again, but then the history is another one. A replica has the field
-- of its primary, since it is data; and a slot that moves takes it along.
--
-- KEYS[1] of every script that changes a standing is the head of the shard.

-- The field as this call has left it; nil if the call has changed nothing yet. And as the call has found it (false: absent), nil if it
-- has not looked.
local changed, changed_before

-- Notes that this call changes what reads show.
local function note_change()
  if changed then return end
  if changed_before == nil then changed_before = redis.call('HGET', KEYS[1], 'changed') end
  local number = changed_before and string.match(changed_before, '^%d+') or 0
  local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '0'
  changed = string.format('%d %s', number + 1, string.sub(history, 1, 12))
  redis.call('HSET', KEYS[1], 'changed', changed)
end
