-- lib/process.lua: which process of Redis this is. Another one has its tables in another order, and may have begun with
-- older data.

local function process_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end
