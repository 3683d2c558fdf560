-- lib/process.lua: the id of this process of Redis. Another process has another order of entries, and maybe older data.

local function process_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
end
