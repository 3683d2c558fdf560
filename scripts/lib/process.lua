-- lib/process.lua: the id of this process of Redis. Another process has its tables in another order, and may have begun
-- with older data.

local function process_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end
