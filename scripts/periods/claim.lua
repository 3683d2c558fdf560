-- claim.lua: claims what a member of a shard has won by a rule in a final period (lib/rewards.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/capture.lua, lib/rewards.lua
--
-- Takes: 3 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the hides follow
-- KEYS[3]  reward lines of the period
-- ARGV[1]  MessagePack of a map:
--   version    as in apply.lua
--   member, rule   claims what this member has won by the rule with this index
--   by, at     under which name it is claimed, and when (ms)
--   revision   of the result; hides: the number of the shard's hides up to which it was revised
--   section    the name of the period in `corrected` (correct.lua)
--
-- Reply: {'STALE'} | {'BEHIND'} the result has to be revised first | {'NONE'} the member has not won it, or is hidden |
--   {'NEW', entry} claimed by this call | {'SAME', entry} claimed before, under the same name | {'TAKEN', entry} claimed
--   before, under another name | {'REVOKED', entry} claimed before, and no longer won. The entry is the line's, MessagePack
--
-- Example: KEYS  st:{b} st:{b}:1:keys st:{b}:1:rewards:day:2026-11-21
--   ARGV  {version='1-1', member='ann', rule=0, by='grant-88', at=1795305600123, revision=1, hides=0, section='day 2026-11-21'}  reply {'NEW', …}

local HEAD, REGISTRY, LINES = KEYS[1], KEYS[2], KEYS[3]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])

local head = redis.call('HMGET', HEAD, 'version', 'moving', 'hides')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end
if tonumber(head[3] or 0) ~= args.hides then return {'BEHIND'} end
if redis.call('HEXISTS', beside_registry(REGISTRY, KIND_CORRECTED), args.section) == 1 then return {'BEHIND'} end
for _, kind in ipairs({KIND_HIDES, KIND_ERASING}) do
  if redis.call('HEXISTS', beside_registry(REGISTRY, kind), args.member) == 1 then return {'NONE'} end
end
if redis.call('ZSCORE', beside_registry(REGISTRY, KIND_HIDDEN), args.member) then return {'NONE'} end

local line = load_line(LINES, args.member)
local entry = entry_of(line, args.rule)
if not entry then return {'NONE'} end
if entry.revision > args.revision then return {'BEHIND'} end
if entry.state == 'lost' then return {'NONE'} end
local function reply(code) return {code, cmsgpack.pack(entry)} end
if entry.state == 'revoked' then return reply('REVOKED') end
if entry.state == 'claimed' then return reply(entry.claim.by == args.by and 'SAME' or 'TAKEN') end

-- The index does not depend on claims.
entry.state, entry.before, entry.claim = 'claimed', 'claimed', {by = args.by, at = args.at, rank = entry.rank}
redis.call('HSET', LINES, args.member, cmsgpack.pack(line))
capture(KIND_REWARDS, LINES, args.member)
return reply('NEW')
