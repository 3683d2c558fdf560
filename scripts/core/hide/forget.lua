-- forget.lua: removes a bounded part of the data of an erased member from a shard (lib/erasures.lua).
-- Uses: lib/slot.lua, lib/keys.lua, lib/cursor.lua, lib/capture.lua, lib/past_initial.lua, lib/standing.lua, lib/derived.lua, lib/nameless.lua, lib/hidden.lua, lib/follow.lua, lib/flush_last.lua, lib/rewards.lua, lib/queue.lua, lib/ordered.lua, lib/member_index.lua, lib/history.lua
--
-- The caller repeats the call until the reply is DONE. Several callers may do so at once, and each may stop at any time.
-- The script first removes the member's events from the queue. Then it walks the registry with a cursor (lib/cursor.lua),
-- and removes the member from each standing that is named there, and in a league from the data of its seats. The walk
-- visits every key that existed when the member was erased. Nothing of the member is added meanwhile: apply.lua and
-- initial.lua refuse it, and advance.lua leaves it out.
--
-- In final standings of windows the member's line and its rewards stay, under an id that belongs to no member
-- (lib/nameless.lua), unless the member was hidden: then it has none.
--
-- Takes: 2 keys, 1 argument
-- KEYS[1]  head of the shard, or board; KEYS[2] registry, from which the keys of the erasures and the hides follow
-- ARGV[1]  MessagePack of a map:
--   version     as in apply.lua
--   layout      see lib/standing.lua
--   member      its id
--   standings   the kinds of standings: code -> whether one lists all members, whatever the layout says
--   parts       the kinds of the other keys of a standing: code -> true
--   count       about how many names of the registry one call looks at
--   barrier     the barrier (ms; '' for none) by which the caller has found out what is final: that of the erasure
--   finals      the series of windows with final standings: name -> {last: key of the last final period; rewards: what the
--               names of its rewards begin with, if it is the one that windows show; with initial scores also events,
--               derived: the names of the series of the events, and of the sums; state: key of the state of the sums}
--   league      whether the board is one: then the member is a player, too
--   history     whether the board keeps events, or has kept some
--   keeps_place whether a line that stays keeps its place among those with the same score and time; otherwise it goes
--               before them
--   places      absent if no other shard has entries of the board. Otherwise the ids of other shards between which the
--               member is: sorted set of the standing -> {id before, id after}, '' for none (ties.lua)
--   initial     the sorted set of the initial scores, if windows count them; closes, kept_from: as in initial.lua
-- Reply: {'STALE'} | {'MORE'} | {'DONE'}: no data remains | {'BARRIER', the barrier}: it is another one | {'PLACES', for
--   each standing that `places` lacks: sorted set, stored score, tie key ('' for none)}: nothing done
--
-- Example: ann, who is in the only standing of a board:
--   KEYS  st:{b}  st:{b}:1:keys
--   ARGV  {version='1-1', layout={…}, member='ann', standings={s=false, …}, parts={members=true, …}, count=300, barrier='',
--          finals={}, keeps_place=true}
--   reply {'DONE'}

local HEAD, REGISTRY = KEYS[1], KEYS[2]
require_slot(HEAD)
local args = cmsgpack.unpack(ARGV[1])
load_hides()
local member, layout = args.member, args.layout

local head = call('HMGET', HEAD, 'version', 'moving', 'hides')
if head[1] ~= args.version then return {'STALE'} end
if head[2] then start_capture(head[2]) end
if head[3] then open_hides(head[3], REGISTRY) end

local ERASING, PAST_INITIAL = beside_registry(REGISTRY, KIND_ERASING), past_initial_key(REGISTRY)
local erasing = call('HGET', ERASING, member)
if not erasing then return {'DONE'} end
local cursor, tag, salt, barrier = string.match(erasing, '^(%S+) ?(%S*) ?(%S*) ?(%S*)$')
if barrier ~= args.barrier then return {'BARRIER', barrier} end
-- Whether the member's lines in final standings stay.
local keeps_lines = tag ~= '' and barrier ~= ''

-- Stores how far the removal has come.
local function keep_cursor(next_cursor)
  call('HSET', ERASING, member, table.concat({next_cursor, tag, salt, barrier}, ' '))
  return {'MORE'}
end

-- First, in parts, what the member had in the queue when it was erased. The cursor is `queue/from/mark`: where the walk
-- goes on, and the last entry at that time. Then it is `dead/from/mark`: dead letters of entries up to the mark. Meanwhile
-- an entry can only go from the queue to the dead letters (replay.lua refuses the way back), so the two walks meet all of
-- them. Unreadable entries belong to no member.

local function is_members_own(event)
  local parts = read_event(event)
  return parts and parts[2] == member
end

-- Where a walk over a stream goes on after a part; nil at its end.
local function place_behind(part)
  return #part == args.count and '(' .. part[#part][1] or nil
end

local function forget_queued(from, mark)
  local queue, removed = beside_registry(REGISTRY, KIND_QUEUE), {}
  local part = call('XRANGE', queue, from, mark, 'COUNT', args.count)
  for _, found in ipairs(part) do
    local fields = fields_by_name(found)
    if is_members_own(fields.event) then
      local id = fields.id or ''
      removed[#removed + 1] = {entry = found[1], id = id, bytes = bytes_of_entry(id, fields.event)}
    end
  end
  local ids, state = beside_registry(REGISTRY, KIND_QUEUE_IDS), beside_registry(REGISTRY, KIND_QUEUE_STATE)
  if #removed > 0 then leave_queue(queue, ids, state, removed) end
  local behind = place_behind(part)
  return keep_cursor(behind and 'queue/' .. behind .. '/' .. mark or 'dead/-/' .. mark)
end

local function forget_dead(from, mark)
  local letters = beside_registry(REGISTRY, KIND_DEAD_LETTERS)
  local part = call('XRANGE', letters, from, '+', 'COUNT', args.count)
  for _, found in ipairs(part) do
    local fields = fields_by_name(found)
    if is_members_own(fields.event) and is_up_to(fields.entry or '0-0', mark) then call('XDEL', letters, found[1]) end
  end
  local behind = place_behind(part)
  return keep_cursor(behind and 'dead/' .. behind .. '/' .. mark or '0')
end

local walk, from, mark = string.match(cursor, '^(%a+)/(.+)/(.+)$')
if walk then
  load_queue()
  return (walk == 'queue' and forget_queued or forget_dead)(from, mark)
end

-- Then, in parts, the rows of its events. Nothing refers to them.
local function forget_rows()
  load_history()
  local history = open_history(HEAD, REGISTRY, layout)
  local texts = texts_of_member(history.of_members, member, '\255', '', args.count)
  for _, text in ipairs(texts) do
    local id = id_of_member(text)
    local row = call('HGET', history.rows, id)
    if row then
      erase_row(history, call('HGET', HEAD, 'erased'), id, row)
    else
      remove_from_member(history.of_members, member, {text})
    end
  end
  return #texts > 0
end

if args.history and forget_rows() then return keep_cursor(cursor) end

-- The key of this kind with this name.
local function key_named(kind, ...)
  return beside_registry(REGISTRY, kind) .. ':' .. table.concat({...}, ':')
end

-- The end of the id of the member's line. With initial scores all its lines share it, since one is the sum of the others.
local function id_behind(text, key)
  return text .. NAMELESS .. tag .. string.sub(redis.sha1hex(salt .. (args.initial and '' or key)), 1, 16)
end

local function open(kind, zset, names)
  local own_layout = args.standings[kind] and layout_of_all(layout) or layout
  local standing = open_standing(open_standings(own_layout, names), keys_of_zset(zset, layout))
  standing.kind = kind
  return standing
end

-- Removes the member from the standing of this kind with this sorted set. If its line stays, returns the line's id.
local function leave(kind, zset, stays)
  local names = {member}
  local standing = open(kind, zset, names)
  load(standing, {1})
  local score = standing.score[1]
  if not score then return nil end
  if stays then
    names[2] = id_behind(args.keeps_place and text_of_place(standing, 1, args.places and args.places[zset]) or '', zset)
    load(standing, {2})
    set(standing, 2, score, standing.time[1])
    call('HINCRBY', HEAD, 'anonymised', 1)
  end
  set(standing, 1, false)
  flush_last(standing, REGISTRY)
  return names[2]
end

-- Lists the sum of a line that stays and the initial score of that time, if it is listed: as advance.lua would list it.
local function leave_sum(final, period, events)
  local zset = key_named(KIND_DERIVED, final.derived, period)
  for _, entry in ipairs(derived_entries(final.state)) do
    if entry.zset == zset then
      local names = {member, id_behind('')}
      local sum, terms = open(KIND_DERIVED, zset, names), open(KIND_STANDING, events, names)
      load(sum, {1, 2})
      load(terms, {2})
      local ends = math.min(entry.ends or args.closes, args.closes)
      local initial = scores_in_past(REGISTRY, ends, {names[2]}, {false})[1]
      local score = (terms.score[2] or initial) and (terms.score[2] or 0) + (initial or 0)
      if sum.score[1] then call('HINCRBY', HEAD, 'anonymised', 1) end
      set(sum, 1, false)
      set(sum, 2, score or false, score and with_initial(entry.floor, initial, terms.time[2]) or nil)
      flush_last(sum, REGISTRY)
    end
  end
end

-- Moves the rewards of the member in a period to another id, or removes them (nil).
local function rename_rewards(key, id)
  local line = load_line(key, member)
  local names = names_of_line(member, line)
  if #names == 0 then return end
  local rewards = rewards_of(REGISTRY, key)
  store_line(rewards, member, names, nil)
  if id then store_line(rewards, id, {}, line) end
end

-- Moves the lines of the member in a final period to another id.
local function leave_final(final, kind, zset, period)
  local id
  if final.derived then
    local events = key_named(KIND_STANDING, final.events, period)
    id = leave(KIND_STANDING, events, true) or id_behind('')
    leave_sum(final, period, events)
  else
    id = leave(kind, zset, true)
  end
  if id and final.rewards then rename_rewards(key_named(KIND_REWARDS, final.rewards, period), id) end
end

-- The standings that keep lines of the member because of this key, each {final, kind, sorted set, key of the period}.
local function finals_of(key, kind, name)
  local series, period = string.match(name, '^([^:]*):(.*)$')
  local found = {}
  if not keeps_lines then return found end
  if kind == KIND_REWARDS then
    for own_series, final in pairs(args.finals) do
      if final.rewards == series then
        found[#found + 1] = {final, KIND_STANDING, key_named(KIND_STANDING, own_series, period), period}
      end
    end
  else
    local final = args.finals[series]
    if final and not is_before(final.last, period) then found[1] = {final, kind, key, period} end
  end
  return found
end

-- Removes the initial score. In closed periods it still counts for the lines that stay.
local function leave_initial()
  if not args.initial then return end
  local own = open(KIND_INITIAL_SCORES, args.initial, {member})
  load(own, {1})
  if own.score[1] and keeps_lines then
    keep_past(REGISTRY, tonumber(barrier), args.kept_from, {member}, {own.score[1]})
  end
  leave(KIND_INITIAL_SCORES, args.initial)
  local past = call('HGET', PAST_INITIAL, member)
  if not past then return end
  if keeps_lines then
    call('HSET', PAST_INITIAL, id_behind(''), past)
    capture(KIND_PAST_INITIAL, PAST_INITIAL, id_behind(''))
  end
  call('HDEL', PAST_INITIAL, member)
  capture(KIND_PAST_INITIAL, PAST_INITIAL, member)
end

-- Removes the data of a player, which only one shard has.
local function leave_league()
  for _, kind in ipairs({KIND_PLAYERS, KIND_PLAYED}) do call('HDEL', beside_registry(REGISTRY, kind), member) end
end

-- Gives back the seat of a tier that the member had, or was about to take (take_seat.lua).
local function leave_seat(taking, name)
  local number, tiers = call('HGET', taking, member), key_named(KIND_TIERS, name)
  if not number then return end
  call('HDEL', taking, member)
  call('HSET', tiers, 'free', (call('HGET', tiers, 'free') or '') .. ' ' .. number)
end

local prefix_length, suffix = #REGISTRY - #KIND_REGISTRY, SEPARATOR .. member

-- Whether a key holds the seats of a cohort, or how that was decided.
local function is_part_of_league(kind, name)
  local part = kind == KIND_STANDING and string.match(name, '[^:]*$')
  return part == KIND_SEATS or part == KIND_DECIDED
end

-- Whether a key holds the folded entries of a standing.
local function is_folded(kind, name)
  return kind == KIND_STANDING and string.match(name, '[^:]*$') == KIND_FOLDED
end

-- The kind of a key, and what follows the kind; nil if it has nothing of the member, or belongs to another key.
local function kind_of(key)
  local kind, name = string.match(string.sub(key, prefix_length + 1), '^([^:]+):(.*)$')
  local is_own = kind == KIND_REWARDS or kind == KIND_VOTERS and string.sub(name, -#suffix) == suffix
    or kind == KIND_TAKING or is_part_of_league(kind, name) or is_folded(kind, name)
    or args.standings[kind] ~= nil and not args.parts[string.match(name, '[^:]*$')]
  return is_own and kind or nil, name
end

-- Removes what a key holds of the member.
local function forget(key)
  local kind, name = kind_of(key)
  if not kind then return end
  if kind == KIND_VOTERS then
    call('UNLINK', key)
    call('SREM', REGISTRY, key)
    capture(KIND_MEMBER_VOTERS, key)
    return
  end
  if kind == KIND_TAKING then return leave_seat(key, name) end
  if is_part_of_league(kind, name) then return call('HDEL', key, member) end
  if is_folded(kind, name) then
    call('HDEL', key, member)
    return capture(KIND_FOLDED, key, member)
  end
  local finals = finals_of(key, kind, name)
  for _, final in ipairs(finals) do leave_final(unpack(final)) end
  if kind == KIND_REWARDS then
    -- The standing may have expired.
    rename_rewards(key, keeps_lines and id_behind('', key) or nil)
  elseif #finals == 0 then
    leave(kind, key)
  end
end

-- Adds the places that the caller has to find out before this key can be handled.
local function add_places(key, reply)
  local kind, name = kind_of(key)
  if not kind or kind == KIND_VOTERS or is_folded(kind, name) then return end
  for _, final in ipairs(finals_of(key, kind, name)) do
    local zset = final[3]
    if not args.places[zset] then
      local standing = open(final[2], zset, {member})
      load(standing, {1})
      if standing.score[1] then
        reply[#reply + 1], reply[#reply + 2] = zset, number_text(standing.score[1])
        reply[#reply + 1] = standing.time[1] and number_text(standing.time[1]) or ''
      end
    end
  end
end

local names, next_cursor = scan_on('SSCAN', REGISTRY, cursor, args.count)
if args.keeps_place and args.places then
  local reply = {'PLACES'}
  for _, key in ipairs(names) do add_places(key, reply) end
  if #reply > 1 then return reply end
end
leave_initial()
if args.league then leave_league() end
for _, key in ipairs(names) do forget(key) end
if next_cursor ~= '0' then return keep_cursor(next_cursor) end
call('HDEL', ERASING, member)
capture(KIND_ERASING, ERASING, member)
-- No hidden list has an entry of the member any more, so the journal need not name it.
call('ZREM', beside_registry(REGISTRY, KIND_HIDE_JOURNAL), member)
call('UNLINK', trail_of(REGISTRY))
return {'DONE'}
