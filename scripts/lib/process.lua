-- lib/process.lua: the id of this process of Redis. Another process orders its hash tables differently, and may have
-- started with older data.

local function process_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end
