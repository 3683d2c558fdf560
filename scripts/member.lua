-- member.lua: one member of a standing with its neighbours, and where it stood the period before, as of one
-- instant.
--
-- KEYS[1] board; KEYS[2…] the standing's keys (`layout.width`) and the state of its window, which is not
-- read where the window isn't rolling; then, if `previous` is given, the keys of the standing before
-- ARGV[1] MessagePack of a map: version, layout, ranking (as in apply.lua); start (ms, of the standing's
--         newest period; 0 if it isn't rolling); member; around (how many on each side, 1 or more);
--         has_previous (boolean); previous (ms, as start)
--
-- Reply: {'STALE'} | {'INCOMPLETE', start} | {'OK', total} where the member is not listed, or
--   {'OK', total, place from 0, rank, place of the first neighbour, its rank, {member, score, …}, previous}
--   previous is {} or {rank, score}
-- Example: ann, 2nd of 3: {'OK', 3, 1, 2, 0, 1, {'bob', '-9', 'ann', '-5', 'cid', '-4'}, {7, '-1'}}

if #KEYS < 3 or #ARGV ~= 1 then return redis.error_reply('ERR member.lua: 3 keys or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking = args.layout, args.ranking
local STATE = 2 + layout.width

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end
local standing = open(layout, 2, args.start ~= 0 and STATE or 0, args.start)
if not standing then return {'INCOMPLETE', number_text(args.start)} end

local total = call('ZCARD', standing.zset)
local place, score = find(layout, standing, args.member)
if not place then return {'OK', total} end

local previous = {}
if args.has_previous then
  local before = open(layout, STATE + 1, args.start ~= 0 and STATE or 0, args.previous)
  if not before then return {'INCOMPLETE', number_text(args.previous)} end
  local old_place, old_score = find(layout, before, args.member)
  if old_place then previous = {rank_at(ranking, before, old_place, old_score), old_score} end
end

local from = math.max(0, place - args.around)
local first_rank, entries = part(ranking, standing, from, place + args.around)
return {'OK', total, place, rank_at(ranking, standing, place, score), from, first_rank, entries, previous}
