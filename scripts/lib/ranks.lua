-- lib/ranks.lua: the ranks that are reported with an event.
-- Uses: lib/standing.lua, lib/hidden.lua, lib/visible.lua
-- Loader: load_visible

-- The rank of a member in a standing, as it is stored; 0 if it is not listed, hidden, or after the last listed one.
local function rank_of(standing, m, ranking)
  local score, keep = standing.score[m], standing.layout.keep
  if not score then return 0 end
  local text = number_text(score)
  if ranking ~= 'ordinal' and keep == 0 and not hidden_entries(standing) then return count_ahead(standing, ranking, text) + 1 end
  local position = position_of_entry(standing, text, zmember(standing, m, standing.time[m]))
  invariant(position ~= -1 or keep > 0, 'a listed member is in its sorted set')
  if not position or position < 0 then return 0 end
  return ranking == 'ordinal' and position + 1 or count_ahead(standing, ranking, text) + 1
end

-- The code of a window that is to be reported but can't be shown until its hidden list is up to date.
local function unseen_of(targets)
  for _, target in ipairs(targets) do
    local standing = target.standing
    if target.is_reported and not (is_list_current(standing) and not is_short(standing)) then return target.code end
  end
end

-- Ranks, and those before, as a record has them.
local function pack_ranks(ranks, old_ranks)
  local packed = {}
  for index, rank in ipairs(ranks) do packed[index] = struct.pack(RANKS_FORM, rank, old_ranks[index]) end
  return table.concat(packed)
end
