-- write_players.lua: writes what the home shard of some members of a league stores of them, each if it is still what the
-- caller saw, and the lines of their histories in the same step. A member that can't be written does not hold up the
-- others.
-- Uses: lib/slot.lua, lib/erasures.lua
--
-- Takes: 4 keys, 1 argument
-- KEYS[1] head of the shard; KEYS[2] registry
-- KEYS[3] players: hash, member -> JSON; KEYS[4] played: hash, member -> its latest lines, newest first (JSON, one a line)
-- ARGV[1] MessagePack of a map:
--   version  as in apply.lua
--   lines    how many lines of a history are kept
-- and in columns:
--   names    the members
--   seen     what the caller saw, '' for none
--   new      what is to be stored
--   played   a line for the history, '' for none
--   taken    when the seat was taken that comes with the change, a tie key of `ties: first`; 0 without one
--
-- Reply: {'STALE'} | {'OK', for each member a list}:
--   {'OK'} | {'CHANGED'} it is not what the caller saw
--   {'ERASED', instant}  the seat was not taken after the last erasure of the member, at this instant: a tie key, text
--   {'ERASING'}          data of the erased member remains: remove it (forget.lua)
-- Example: KEYS st:{b:16:3} st:{b:16:3}:1:keys st:{b:16:3}:1:players st:{b:16:3}:1:played
--   ARGV {version='1-1', lines=500, names={'ann'}, seen={''}, new={'{"tier":0,…}'}, played={''}, taken={4001000000000000}}
--   reply {'OK', {'OK'}}

local HEAD, REGISTRY, PLAYERS, PLAYED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
local call, names, new = redis.call, args.names, args.new

local head = call('HMGET', HEAD, 'version', 'erased')
if head[1] ~= args.version then return {'STALE'} end
local erasures = {}
if head[2] then
  load_hides()
  erasures = load_erasures(REGISTRY, head[2], names)
end

-- A history with one more line, cut to the number of lines that are kept.
local function with_line(history, line)
  local text, stop = line .. '\n' .. history, 0
  for _ = 1, args.lines do
    stop = string.find(text, '\n', stop + 1, true)
    if not stop then return text end
  end
  return string.sub(text, 1, stop - 1)
end

-- The stored players by member, since a member may be written twice.
local stored = {}
for m, text in ipairs(call('HMGET', PLAYERS, unpack(names))) do stored[names[m]] = text or '' end

local function write(m)
  local name, erasure = names[m], erasures[m]
  if erasure and erasure.is_pending then return {'ERASING'} end
  if erasure and args.taken[m] > 0 and args.taken[m] <= erasure.instant then
    return {'ERASED', string.format('%d', erasure.instant)}
  end
  if stored[name] ~= args.seen[m] then return {'CHANGED'} end
  stored[name] = new[m]
  call('HSET', PLAYERS, name, new[m])
  if args.played[m] ~= '' then
    call('HSET', PLAYED, name, with_line(call('HGET', PLAYED, name) or '', args.played[m]))
    call('SADD', REGISTRY, PLAYED)
  end
  return {'OK'}
end

local reply = {'OK'}
for m = 1, #names do reply[m + 1] = write(m) end
call('SADD', REGISTRY, PLAYERS)
return reply
