-- page.lua: one page of a standing, and the caller's own entry, as of one instant.
--
-- KEYS[1] board; KEYS[2…] the standing's keys (`layout.width`), and behind them the state of its window if
-- it is a rolling one
-- ARGV[1] MessagePack of a map: version, layout, ranking (as in apply.lua); start (ms, of the standing's
--         newest period; 0 if it isn't rolling); offset, count; member (id, or false)
--
-- Reply: {'STALE'} | {'INCOMPLETE', start} | {'OK', total, rank of the first entry, {member, score, …}, me}
--   me is {} where no member was named or it is not listed, else {rank, score, sorted-set member}
-- Example: {'OK', 2, 1, {'ann', '-5', 'bob', '-3'}, {2, '-3', 'bob'}}

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR page.lua: 2 keys or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking = args.layout, args.ranking

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end
local standing = open(layout, 2, args.start ~= 0 and 2 + layout.width or 0, args.start)
if not standing then return {'INCOMPLETE', number_text(args.start)} end

local first_rank, entries = part(ranking, standing, args.offset, args.offset + args.count - 1)
local me = {}
if args.member then
  local place, score, member = find(layout, standing, args.member)
  if place then me = {rank_at(ranking, standing, place, score), score, member} end
end
return {'OK', call('ZCARD', standing.zset), first_rank, entries, me}
