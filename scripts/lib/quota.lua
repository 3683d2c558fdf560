-- lib/quota.lua: counting what events take of a board's quotas.
-- Uses: lib/standing.lua
--
-- A quota has one pool or more: its `max`, and its extra allowances. An event takes from the first of its pools
-- that has enough left. A pool has one key for each voter, member, … that is counted separately. The key holds what
-- was taken:
--   of a period, or in total   string: the sum
--   of a sliding window        sorted set, the log: ms since the epoch -> `ms:n:amount`, n telling apart those of one
--                              millisecond, on boards of several shards by a token; what can't matter any more is dropped
--
-- rules = list of {log = length of the sliding window in ms, 0: none; keep = ms for which a log is kept;
--                  is_points: whether amounts other than 1 are counted; allowances = list, one for each pool}
-- A use is {index in `rules`, amount, expires (ms since the epoch, 0: never), key indexes of the pools, 0: not one
-- of the event's}.
--
-- Opens the counts of the uses of some events, and returns the functions that work on them. It is called only if they are
-- needed, because making them costs a twentieth of the smallest call.
local function open_counts(rules, uses_of_events)
  -- What was taken of pools that are sums; and of those that have changed, when they expire.
  local sums, changed = {}, {}

  -- Loads the sums of the uses of many events with one command.
  local function load_sums(uses)
    local keys = {}
    for _, of_event in ipairs(uses) do
      for _, use in ipairs(of_event) do
        if rules[use[1]].log == 0 then
          for _, key in ipairs(use[4]) do
            if key > 0 and not sums[KEYS[key]] then
              sums[KEYS[key]] = 0
              keys[#keys + 1] = KEYS[key]
            end
          end
        end
      end
    end
    if #keys == 0 then return end
    for index, sum in ipairs(call('MGET', unpack(keys))) do
      if sum then sums[keys[index]] = tonumber(sum) end
    end
  end

  -- The instants and amounts in a log between two bounds, oldest first.
  local function log_entries(key, from, to)
    local flat = call('ZRANGE', key, from, to, 'BYSCORE', 'WITHSCORES')
    local instants, amounts = {}, {}
    for index = 1, #flat, 2 do
      instants[#instants + 1] = tonumber(flat[index + 1])
      amounts[#amounts + 1] = tonumber(string.match(flat[index], '%d+$'))
    end
    return instants, amounts
  end

  -- The state of a log for an event at `instant`: how much the fullest stretch of the window's length that contains
  -- `instant` holds, and the instants and amounts around it.
  local function look_up_log(rule, key, instant)
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    local instants, amounts = log_entries(key, from, to)
    -- The fullest stretch begins with an entry, or with `instant`.
    local fullest, last, sum = 0, 0, 0
    for first = 1, #instants + 1 do
      local begin = math.min(instants[first] or instant, instant)
      while last < #instants and instants[last + 1] < begin + rule.log do
        last = last + 1
        sum = sum + amounts[last]
      end
      fullest = math.max(fullest, sum)
      if begin == instant then break end
      sum = sum - amounts[first]
    end
    return fullest, instants, amounts
  end

  -- The same for a log of events. It counts, because the log may hold many. The fullest stretch ends with `instant`, or
  -- with one of the few entries behind it.
  local function count_log(rule, key, instant)
    local function count_until(last)
      return call('ZCOUNT', key, '(' .. number_text(last - rule.log), number_text(last))
    end
    local fullest = count_until(instant)
    local behind = log_entries(key, '(' .. number_text(instant), '(' .. number_text(instant + rule.log))
    for _, last in ipairs(behind) do fullest = math.max(fullest, count_until(last)) end
    return fullest
  end

  local function fullest_of_log(rule, key, instant)
    local count = rule.is_points and look_up_log or count_log
    return count(rule, key, instant)
  end

  -- When a log of events takes one more event.
  local function count_frees(rule, key, allowance, instant)
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    local last = call('ZRANGE', key, to, from, 'BYSCORE', 'REV', 'LIMIT', allowance - 1, 1, 'WITHSCORES')[2]
    return last and tonumber(last) + rule.log or 0
  end

  -- When a log takes an amount, if nothing else comes in; 0: at once, or never.
  local function log_frees(rule, key, allowance, amount, instant, instants, amounts)
    if not rule.is_points then return count_frees(rule, key, allowance, instant) end
    local left = amount
    for index = #instants, 1, -1 do
      left = left + amounts[index]
      if left > allowance then return instants[index] + rule.log end
    end
    return 0
  end

  -- Whether a log takes an amount at `instant`; if not, also when it does.
  local function log_takes(rule, key, allowance, amount, instant)
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    if not rule.is_points and call('ZCOUNT', key, from, to) + amount <= allowance then return true end
    local fullest, instants, amounts = fullest_of_log(rule, key, instant)
    if fullest + amount <= allowance then return true end
    return false, log_frees(rule, key, allowance, amount, instant, instants, amounts)
  end

  -- What was taken of a use's pools together, and what they allow. A pool whose allowance was lowered is full.
  local function taken_of_use(use, instant)
    local rule, taken, allowed = rules[use[1]], 0, 0
    for pool, index in ipairs(use[4]) do
      if index > 0 then
        local allowance, of_pool = rule.allowances[pool], sums[KEYS[index]]
        if rule.log > 0 then of_pool = fullest_of_log(rule, KEYS[index], instant) end
        taken, allowed = taken + math.min(allowance, of_pool), allowed + allowance
      end
    end
    return taken, allowed
  end

  -- What remains of each use, once they have taken their amounts, as text.
  local function remaining_of(uses, instant)
    local remaining = {}
    for index, use in ipairs(uses) do
      local taken, allowed = taken_of_use(use, instant)
      remaining[index] = number_text(allowed - taken - use[2])
    end
    return remaining
  end

  -- Why a use is refused, which frees then: {quota, when it frees, what was taken, what is allowed, what it would take}.
  local function shortage_of(use, frees, instant)
    local taken, allowed = taken_of_use(use, instant)
    return {use[1], number_text(frees), number_text(taken), number_text(allowed), number_text(use[2])}
  end

  -- The pool that a use takes from; or nil and when it frees (0: unknown). `reserving` has the pools with open
  -- reservations: if one of those has too little left, the answer is not known yet, and the result is nil and nil.
  local function choose_pool(use, instant, reserving)
    local rule, amount, frees = rules[use[1]], use[2], 0
    for pool, index in ipairs(use[4]) do
      if index > 0 then
        local key, allowance, takes, later = KEYS[index], rule.allowances[pool], nil, 0
        if rule.log > 0 then
          takes, later = log_takes(rule, key, allowance, amount, instant)
        else
          takes = sums[key] + amount <= allowance
        end
        if takes then return {rule = rule, key = key, amount = amount, expires = use[3]} end
        if reserving[key] then return nil, nil end
        if frees == 0 then frees = later end
      end
    end
    return nil, frees
  end

  -- For each use the pool that it takes from; or nil, and the use that a quota refuses, and when that frees (0: unknown, nil:
  -- not known yet).
  local function choose_pools(uses, instant, reserving)
    local chosen = {}
    for _, use in ipairs(uses) do
      local pool, frees = choose_pool(use, instant, reserving)
      if not pool then return nil, use, frees end
      chosen[#chosen + 1] = pool
    end
    return chosen
  end

  -- Looks at what is only written, before anything is: the registry, and the logs of all events but the first, which are read before that.
  local function look_at(uses_of_all, registry)
    local seen = {}
    call('SCARD', registry)
    for e = 2, #uses_of_all do
      for _, use in ipairs(uses_of_all[e]) do
        for _, index in ipairs(rules[use[1]].log > 0 and use[4] or {}) do
          if index > 0 and not seen[index] then
            seen[index] = true
            call('ZCARD', KEYS[index])
          end
        end
      end
    end
  end

  -- Takes from the chosen pools: from logs at once, from sums in memory. `name` makes the event's entries in logs
  -- different from others of the same millisecond, if they may be removed again; otherwise they are numbered.
  local function take_from(pools, instant, now, name)
    for _, pool in ipairs(pools) do
      local key, rule = pool.key, pool.rule
      if rule.log > 0 then
        local at = number_text(instant)
        local entry = at .. ':' .. (name or call('ZCOUNT', key, at, at)) .. ':' .. number_text(pool.amount)
        call('ZADD', key, at, entry)
        pool.entry = entry
        call('ZREMRANGEBYSCORE', key, '-inf', '(' .. number_text(now - rule.keep))
        call('PEXPIRE', key, number_text(rule.keep))
      else
        sums[key] = sums[key] + pool.amount
        changed[key] = pool.expires
      end
    end
  end

  local function flush(registry, now)
    for key, expires in pairs(changed) do
      local sum = number_text(sums[key])
      if expires > 0 then
        call('SET', key, sum, 'PX', number_text(math.max(1, expires - now)))
      else
        call('SET', key, sum)
        call('SADD', registry, key)
      end
    end
  end

  load_sums(uses_of_events)
  return {
    sums = sums, fullest_of_log = fullest_of_log, log_frees = log_frees, remaining_of = remaining_of, shortage_of = shortage_of,
    choose_pools = choose_pools, look_at = look_at, take_from = take_from, flush = flush,
  }
end
