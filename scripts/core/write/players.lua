-- players.lua: reads what the home shard of some members of a league stores of them: as players, or what they have played.
-- Uses: lib/erasures.lua
--
-- Takes: 3 keys, 2 arguments or more
-- KEYS[1] head of the shard; KEYS[2] registry, from which the key of the erasures follows; KEYS[3] players, or played:
--         hash, member -> text
-- ARGV[1] version, as in apply.lua
-- ARGV[2…] the members
--
-- Reply: {'STALE'} | {'OK', for each member two: its text, '' for none, also if it was erased and data of it remains; and 1
--   if it was erased and has had no data since, else 0}
-- Example: KEYS st:{b:16:3} st:{b:16:3}:1:keys st:{b:16:3}:1:players  ARGV '1-1' 'ann'  reply {'OK', '{"tier":1,…}', 0}

local HEAD, REGISTRY, TEXTS, version = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local call = redis.call

local head = call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= version then return {'STALE'} end
local members = {unpack(ARGV, 2)}
local texts = call('HMGET', TEXTS, unpack(members))
local erasures = {}
if head[2] then
  load_hides()
  erasures = load_erasures(REGISTRY, head[2], members)
end
local reply = {'OK'}
for m = 1, #members do
  local erasure = erasures[m]
  reply[2 * m] = not (erasure and erasure.is_pending) and texts[m] or ''
  reply[2 * m + 1] = erasure and not erasure.has_data and 1 or 0
end
return reply
