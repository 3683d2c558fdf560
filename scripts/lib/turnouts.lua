-- lib/turnouts.lua: counts the events of periods, and their voters.
-- Uses: lib/keys.lua, lib/capture.lua, lib/changed.lua, lib/standing.lua, lib/expiry.lua
--
-- Returns the functions that count. Called only if they are needed. `args`: `turnouts` of apply.lua.
local function open_turnouts(registry, args, names)
  local periods, tag, voters, by_member = args.periods, args.tag, args.voters, args.by_member
  -- What is counted of the events that this call takes, by their lists of turnouts; and whether the checked keys are new.
  local counted, new = {}, {}

  -- Whether the voters of a key are yet to be noted in the registry. A key of another type aborts the call.
  local function look_at_voters(key)
    if new[key] ~= nil then return false end
    local magic = call('GETRANGE', key, 0, 3)
    invariant(magic == '' or magic == 'HYLL', key .. ' counts voters')
    new[key] = magic == ''
    return new[key]
  end

  -- Checks the keys of some events before anything is written; returns whether there are new ones.
  -- `indexes_of(e)`: the turnouts of event e.
  local function look_at(members, indexes_of)
    local has_new = false
    for _, turnout in ipairs(periods) do
      has_new = call('HLEN', KEYS[turnout[1]]) == 0 or has_new
      has_new = look_at_voters(KEYS[turnout[2]]) or has_new
    end
    for e = 1, by_member and #members or 0 do
      for _, index in ipairs(voters[e] ~= '' and indexes_of(e) or {}) do
        has_new = look_at_voters(voters_of_member(KEYS[periods[index][2]], names[members[e]])) or has_new
      end
    end
    return has_new
  end

  local function count(indexes, m, voter)
    local turnout = counted[indexes] or {events = 0, voters = {}, of_member = {}}
    counted[indexes] = turnout
    turnout.events = turnout.events + 1
    if voter == '' then return end
    turnout.voters[#turnout.voters + 1] = voter
    if by_member then
      local of_member = turnout.of_member[m] or {}
      turnout.of_member[m], of_member[#of_member + 1] = of_member, voter
    end
  end

  local function add_voters(kind, key, ids, expires, now)
    if #ids == 0 or call('PFADD', key, unpack(ids)) == 0 then return end
    if new[key] then keep_until(registry, key, expires, now) end
    capture(kind, key)
  end

  -- Writes what was counted in a period.
  local function flush_period(period, turnout, now)
    local events, of_period, expires = unpack(period)
    if expires > 0 and expires <= now then return end
    note_change()
    local total = call('HINCRBY', KEYS[events], tag, turnout.events)
    if total == turnout.events then keep_until(registry, KEYS[events], expires, now) end
    capture(KIND_TURNOUT, KEYS[events])
    add_voters(KIND_VOTERS, KEYS[of_period], turnout.voters, expires, now)
    for m, ids in pairs(turnout.of_member) do
      add_voters(KIND_MEMBER_VOTERS, voters_of_member(KEYS[of_period], names[m]), ids, expires, now)
    end
  end

  local function flush(now)
    for indexes, turnout in pairs(counted) do
      for _, index in ipairs(indexes) do flush_period(periods[index], turnout, now) end
    end
  end

  return {look_at = look_at, count = count, flush = flush}
end
