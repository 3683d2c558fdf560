-- subset.lua: some members of a standing, as of one instant.
--
-- KEYS[1] board; KEYS[2…] the standing's keys (`layout.width`), and behind them the state of its window if
-- it is a rolling one
-- ARGV[1] MessagePack of a map: version, layout, ranking, start (as in page.lua); members (list of ids)
--
-- Reply: {'STALE'} | {'INCOMPLETE', start} | {'OK', total, list of {} (not listed) or
--         {place from 0, rank, score, sorted-set member}}, in the order of `members`
-- Example: {'OK', 2, {{0, 1, '-5', 'ann'}, {}}}

if #KEYS < 2 or #ARGV ~= 1 then return redis.error_reply('ERR subset.lua: 2 keys or more, 1 argument') end
local args = cmsgpack.unpack(ARGV[1])
local layout, ranking = args.layout, args.ranking

if call('HGET', KEYS[1], 'version') ~= args.version then return {'STALE'} end
local standing = open(layout, 2, args.start ~= 0 and 2 + layout.width or 0, args.start)
if not standing then return {'INCOMPLETE', number_text(args.start)} end

local found = {}
for index, id in ipairs(args.members) do
  local place, score, member = find(layout, standing, id)
  found[index] = place and {place, rank_at(ranking, standing, place, score), score, member} or {}
end
return {'OK', call('ZCARD', standing.zset), found}
