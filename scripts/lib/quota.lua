-- lib/quota.lua: counts what events take from a board's quotas.
-- Uses: lib/standing.lua
--
-- A quota has one or more pools: its `max`, and its extra allowances. An event takes from the first of its pools that has
-- enough left. A pool has one key for each voter, member, … that is counted separately. The key holds what was taken:
--   of a period, or in total   string: the sum
--   of a sliding window        sorted set, the log: ms since the epoch -> `ms:n:amount`, where n keeps those of one
--                              millisecond apart (on boards of several shards a token); obsolete entries are dropped
-- rules = list of {log = length of the sliding window in ms, 0: none; keep = ms for which a log is kept;
--                  is_points: whether amounts other than 1 are counted; allowances = list, one for each pool}
-- The uses of an event are one list. Each use takes three numbers and one for each pool of its quota: index in `rules`;
-- amount; expires (ms since the epoch, 0: never); key indexes of the pools, 0: not one of the event's.
--
-- Opens the counts of the uses of some events, and returns the functions that work on them. Called only if they are needed,
-- because making them costs a twentieth of the smallest call.
local function open_counts(rules, uses_of_events)
  -- By pool: what was taken, for a sum; how many entries it has, for a log.
  local counts = {}
  -- What has changed: for a sum, when it expires; for a log, its rule.
  local changed_sums, changed_logs = {}, {}

  -- Iterates over the uses of an event: where each begins, and its rule.
  local function next_use(uses, place)
    place = place and place + 3 + #rules[uses[place]].allowances or 1
    if uses[place] then return place, rules[uses[place]] end
  end

  -- Loads the counts of many events. A key of another type aborts the call here.
  local function load_counts()
    local keys = {}
    for _, uses in ipairs(uses_of_events) do
      for place, rule in next_use, uses do
        for index = place + 3, place + 2 + #rule.allowances do
          local key = KEYS[uses[index]]
          if key and not counts[key] and rule.log > 0 then
            counts[key] = call('ZCARD', key)
          elseif key and not counts[key] then
            counts[key], keys[#keys + 1] = 0, key
          end
        end
      end
    end
    if #keys == 0 then return end
    for index, sum in ipairs(call('MGET', unpack(keys))) do
      if sum then counts[keys[index]] = tonumber(sum) end
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

  -- The state of a log for an event at `instant`: how much the fullest window that contains `instant` holds, and the
  -- instants and amounts around it.
  local function look_up_log(rule, key, instant)
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    local instants, amounts = log_entries(key, from, to)
    -- The fullest window begins with an entry, or with `instant`.
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

  -- Like `look_up_log`, for a log of events. It counts, because the log may hold many. The fullest window ends with
  -- `instant`, or with one of the few entries after it.
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

  -- When a log of events has room for one more event.
  local function count_frees(rule, key, allowance, instant)
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    local last = call('ZRANGE', key, to, from, 'BYSCORE', 'REV', 'LIMIT', allowance - 1, 1, 'WITHSCORES')[2]
    return last and tonumber(last) + rule.log or 0
  end

  -- When a log has room for an amount, if nothing else comes in; 0: at once, or never.
  local function log_frees(rule, key, allowance, amount, instant, instants, amounts)
    if not rule.is_points then return count_frees(rule, key, allowance, instant) end
    local left = amount
    for index = #instants, 1, -1 do
      left = left + amounts[index]
      if left > allowance then return instants[index] + rule.log end
    end
    return 0
  end

  -- Whether a log takes an amount at `instant`; if not, also when it will.
  local function log_takes(rule, key, allowance, amount, instant)
    -- No window holds more events than the log, nor than all windows that contain `instant`.
    if not rule.is_points and counts[key] + amount <= allowance then return true end
    local from, to = '(' .. number_text(instant - rule.log), '(' .. number_text(instant + rule.log)
    if not rule.is_points and call('ZCOUNT', key, from, to) + amount <= allowance then return true end
    local fullest, instants, amounts = fullest_of_log(rule, key, instant)
    if fullest + amount <= allowance then return true end
    return false, log_frees(rule, key, allowance, amount, instant, instants, amounts)
  end

  -- What was taken from a use's pools together, and what they allow. A pool whose allowance was lowered is full.
  local function taken_of_use(uses, place, instant)
    local rule, taken, allowed = rules[uses[place]], 0, 0
    for pool, allowance in ipairs(rule.allowances) do
      local key = KEYS[uses[place + 2 + pool]]
      if key then
        local of_pool = rule.log > 0 and fullest_of_log(rule, key, instant) or counts[key]
        taken, allowed = taken + math.min(allowance, of_pool), allowed + allowance
      end
    end
    return taken, allowed
  end

  -- What remains of each use after taking its amount, as text.
  local function remaining_of(uses, instant)
    local remaining = {}
    for place in next_use, uses do
      local taken, allowed = taken_of_use(uses, place, instant)
      remaining[#remaining + 1] = number_text(allowed - taken - uses[place + 1])
    end
    return remaining
  end

  -- Why the use at `place` is refused: {quota, `frees`: when it frees, what was taken, is allowed, would be taken}.
  local function shortage_of(uses, place, frees, instant)
    local taken, allowed = taken_of_use(uses, place, instant)
    return {uses[place], number_text(frees), number_text(taken), number_text(allowed), number_text(uses[place + 1])}
  end

  -- The pool that the use at `place` takes from; or nil and when it frees (0: unknown). `reserving`: the pools with open
  -- reservations. If one of those has too little left, the outcome is not known yet, and the result is nil and nil.
  local function choose_pool(rule, uses, place, instant, reserving)
    local amount, frees = uses[place + 1], 0
    for pool, allowance in ipairs(rule.allowances) do
      local key = KEYS[uses[place + 2 + pool]]
      if key then
        local takes, later = counts[key] + amount <= allowance, 0
        if rule.log > 0 then takes, later = log_takes(rule, key, allowance, amount, instant) end
        if takes then return key end
        if reserving[key] then return nil, nil end
        if frees == 0 then frees = later end
      end
    end
    return nil, frees
  end

  -- The pools that the uses of an event take from, in their order. One list, reused for all events.
  local chosen = {}

  -- For each use the pool that it takes from; or nil, and the place of the use that a quota refuses, and when that frees
  -- (0: unknown, nil: not known yet).
  local function choose_pools(uses, instant, reserving)
    local count = 0
    for place, rule in next_use, uses do
      local pool, frees = choose_pool(rule, uses, place, instant, reserving)
      if not pool then return nil, place, frees end
      count = count + 1
      chosen[count] = pool
    end
    return chosen
  end

  -- The entry of an event in a log. `name` distinguishes it from others of the same millisecond.
  local function log_entry(instant, name, amount)
    return number_text(instant) .. ':' .. name .. ':' .. number_text(amount)
  end

  -- Adds an event to a log: under its name if it has one, otherwise under a number. The entries of one millisecond always
  -- outnumber the greatest number among them, so their count is a new number.
  local function add_to_log(rule, key, instant, amount, name)
    local at = number_text(instant)
    if call('ZADD', key, at, log_entry(instant, name or 0, amount)) == 0 and not name then
      call('ZADD', key, at, log_entry(instant, call('ZCOUNT', key, at, at), amount))
    end
    counts[key], changed_logs[key] = counts[key] + 1, rule
  end

  -- Takes from the chosen pools: from logs at once, from sums in memory. An event that may be undone has a name.
  local function take_from(pools, uses, instant, name)
    local count = 0
    for place, rule in next_use, uses do
      count = count + 1
      local key, amount = pools[count], uses[place + 1]
      if rule.log > 0 then
        add_to_log(rule, key, instant, amount, name)
      else
        counts[key], changed_sums[key] = counts[key] + amount, uses[place + 2]
      end
    end
  end

  local function flush(registry, now)
    local texts = {}
    local function text_of(ms)
      texts[ms] = texts[ms] or number_text(ms)
      return texts[ms]
    end
    for key, rule in pairs(changed_logs) do
      if counts[key] > 1 then call('ZREMRANGEBYSCORE', key, '-inf', '(' .. text_of(now - rule.keep)) end
      call('PEXPIRE', key, text_of(rule.keep))
    end
    for key, expires in pairs(changed_sums) do
      local sum = number_text(counts[key])
      if expires > 0 then
        call('SET', key, sum, 'PX', text_of(math.max(1, expires - now)))
      else
        call('SET', key, sum)
        call('SADD', registry, key)
      end
    end
  end

  load_counts()
  return {
    counts = counts, next_use = next_use, fullest_of_log = fullest_of_log, log_frees = log_frees, remaining_of = remaining_of,
    shortage_of = shortage_of, choose_pools = choose_pools, log_entry = log_entry, take_from = take_from, flush = flush,
  }
end
