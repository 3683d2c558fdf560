-- quotas.lua: reads how much has been taken of some pools of a board's quotas.
-- Uses: lib/standing.lua, lib/quota.lua
--
-- Takes: 1 key or more, 1 argument
-- KEYS[1]  board
-- KEYS[2…] pools, named by their index in ARGV[1] (lib/quota.lua)
--
-- ARGV[1]  MessagePack of a map: version (as in apply.lua); instant (ms since the epoch: now); rules, uses: lib/quota.lua
--
-- Reply: {'STALE'}, or {'OK', for each use {when a sliding window that is used up frees, 0: not known, what was taken
--        from each pool…}}; all numbers are text
-- Example: one quota of a period, of which three are taken: {'OK', {'0', '3'}}

local args = cmsgpack.unpack(ARGV[1])
local rules, instant = args.rules, args.instant

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end

local reply = {'OK'}
local counts = open_counts(rules, {args.uses})
for place, rule in counts.next_use, args.uses do
  local frees, taken = 0, {}
  for pool, allowance in ipairs(rule.allowances) do
    local key = KEYS[args.uses[place + 2 + pool]]
    if not key then
      taken[pool] = '0'
    elseif rule.log == 0 then
      taken[pool] = number_text(counts.counts[key])
    else
      local fullest, instants, amounts = counts.fullest_of_log(rule, key, instant)
      taken[pool] = number_text(fullest)
      if pool == 1 and fullest >= allowance then
        frees = counts.log_frees(rule, key, allowance, 1, instant, instants, amounts)
      end
    end
  end
  reply[#reply + 1] = {number_text(frees), unpack(taken)}
end
return reply
