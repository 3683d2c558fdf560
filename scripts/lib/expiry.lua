-- lib/expiry.lua: puts new keys into the registry, with the instant at which they expire.
-- Uses: lib/standing.lua

-- How many ms the server's clock (which expires keys) is ahead of the caller's; one value for all keys of the call.
local ahead
local function clock_ahead(now)
  if not ahead then
    local time = call('TIME')
    ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
  end
  return ahead
end

-- Puts a new key into the registry, and sets when it expires (`now`, `expires`: ms since the epoch; 0: never).
local function keep_until(registry, key, expires, now)
  call('SADD', registry, key)
  if expires > 0 then call('PEXPIREAT', key, number_text(expires + clock_ahead(now))) end
end
