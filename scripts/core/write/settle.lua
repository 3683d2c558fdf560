-- settle.lua: keeps reservations of events that were taken, and gives back those of others (reserve.lua).
-- Uses: lib/slot.lua
--
-- The script needs only the notes. It does not depend on the definition, which may have changed. A token without a note is
-- already settled.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  reserved   hash: token -> note
-- KEYS[2]  reserving  hash: pool -> how many of its reservations are open
-- (the pools are named in the notes, and are in the same slot)
--
-- ARGV[1]  MessagePack of a map: kept and given_back, lists of tokens
--
-- Reply: {'OK'}
-- Example: KEYS st:{b:4:0}:1:reserved st:{b:4:0}:1:reserving  ARGV {kept={'fYQ3xK0aZ-1'}, given_back={}}  reply {'OK'}

local call = redis.call

local NOTES, RESERVING = KEYS[1], KEYS[2]
local args = cmsgpack.unpack(ARGV[1])
require_slot(NOTES)

-- The notes of some tokens, if they exist.
local function load_notes(tokens)
  local notes = {}
  if #tokens == 0 then return notes end
  for index, note in ipairs(call('HMGET', NOTES, unpack(tokens))) do
    if note then notes[tokens[index]] = cmsgpack.unpack(note) end
  end
  return notes
end

local function give_back(pool, amount, entry)
  if entry ~= '' then
    call('ZREM', pool, entry)
  elseif call('EXISTS', pool) == 1 and call('DECRBY', pool, amount) <= 0 then
    call('DEL', pool)
  end
end

-- Removes the notes, and lowers the numbers of open reservations.
local function close(notes)
  for token, note in pairs(notes) do
    call('HDEL', NOTES, token)
    for _, taken in ipairs(note.taken) do
      if call('HINCRBY', RESERVING, taken[1], -1) <= 0 then call('HDEL', RESERVING, taken[1]) end
    end
  end
end

close(load_notes(args.kept))
local given_back = load_notes(args.given_back)
for _, note in pairs(given_back) do
  for _, taken in ipairs(note.taken) do give_back(unpack(taken)) end
end
close(given_back)
return {'OK'}
