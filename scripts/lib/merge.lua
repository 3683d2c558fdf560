-- lib/merge.lua: how an event changes the entry of its member.
-- Uses: lib/standing.lua

-- The new score and time of a listed member after this amount. `update`: see apply.lua.
local function merge(layout, update, score, time, amount, at)
  if update == 'sum' then return score + amount, latest(layout, time, at) end
  local better
  if update == 'greatest' then
    better = amount > score
  else
    -- Of two that are the last, the one that ranks higher.
    better = amount < score
  end
  if update == 'greatest' or update == 'least' then
    if better then return amount, at end
    -- The time of a kept value is the first at which it was reached.
    if amount == score and time and is_later(layout, time, at) then return score, at end
  elseif is_later(layout, at, time) or (at == time and better) then
    return amount, at
  end
  return score, time
end

-- The data of a listed member with this new score and time after an event: from the event or the entry before, whichever
-- gave it both; if both did, the greater.
local function merge_data(standing, m, score, time, amount, at, data, is_sum)
  local by_event = time == at and (is_sum or score == amount)
  local by_entry = time == standing.time[m] and (is_sum or score == standing.score[m])
  if by_event and by_entry then return greater_data(standing.data[m], data) end
  return by_event and data or standing.data[m]
end
