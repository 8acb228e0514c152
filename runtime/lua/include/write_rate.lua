--- include/write_rate: writes a rate, and gives back what a request took of it. Goes after
--- include/rate.

-- If there are more free spans, the earliest are left to time.
local MOST_FREE = 32
local MOST = 64

-- Keeps the rate for as long as it is used up, or this request counts.
local function keep_rate(rate, until_us)
  local keep_ms = math.ceil((math.max(rate.used_us, until_us) - rate.now_us + KEPT_US) / 1000)
  return redis.call('PEXPIRE', rate.key, keep_ms)
end

-- Writes a rate, and until when this request counts. The expiry before the entry: a user without the
-- right to PEXPIRE leaves nothing behind.
local function write_rate(rate, id, until_us)
  local is_there = keep_rate(rate, until_us)
  redis.call('ZREMRANGEBYSCORE', rate.key, 0, rate.now_us)
  if rate.stored[1] then redis.call('ZREM', rate.key, unpack(rate.stored)) end
  local entries = {
    -rate.used_us, 'used', -rate.now_us, 'seen', -rate.begins_us, 'begins', until_us + KEPT_US, id,
  }
  for nth = math.max(1, #rate.free - MOST_FREE + 1), #rate.free do
    entries[#entries + 1] = -rate.free[nth][2]
    entries[#entries + 1] = string.format('%.0f', rate.free[nth][1])
  end
  redis.call('ZADD', rate.key, unpack(entries))
  if is_there == 0 then keep_rate(rate, until_us) end
end

-- Adds a free span, which may touch others.
local function add_free(rate, from_us, until_us)
  local last = rate.free[#rate.free]
  if last and last[2] == from_us then last[2] = until_us else table.insert(rate.free, {from_us, until_us}) end
end

-- Gives the span of a request back, and returns how much of it was left. A later copy of the request
-- takes nothing. If all others have begun, those behind it move forward, as if the request had never
-- come. If one waits, or more than MOST are behind it, the span is free.
local function give_back_rate(rate, id, weight_us)
  local until_us, was_given_back = read_span(rate, id)
  local from_us, move_us, behind = math.max((until_us or 0) - weight_us, rate.now_us), 0, {}
  local back_us = until_us and not was_given_back and math.max(until_us - from_us, 0) or 0
  if back_us > 0 then
    if rate.begins_us <= rate.now_us then
      local after = string.format('(%.0f', until_us + KEPT_US)
      behind = redis.call('ZRANGE', rate.key, after, '+inf', 'BYSCORE', 'LIMIT', 0, MOST + 1, 'WITHSCORES')
      move_us = #behind <= 2 * MOST and back_us or 0
    end
    local all, is_added = rate.free, move_us > 0
    rate.free = {}
    for _, span in ipairs(all) do
      local is_behind = span[1] >= until_us
      if is_behind and not is_added then add_free(rate, from_us, until_us) end
      is_added = is_added or is_behind
      local moves_us = is_behind and move_us or 0
      add_free(rate, span[1] - moves_us, span[2] - moves_us)
    end
    if not is_added then add_free(rate, from_us, until_us) end
    rate.used_us = rate.used_us - move_us
    local last = rate.free[#rate.free]
    if last and last[2] == rate.used_us then rate.used_us = table.remove(rate.free)[1] end
    for nth = 1, move_us > 0 and #behind or 0, 2 do
      redis.call('ZADD', rate.key, behind[nth + 1] - move_us, behind[nth])
    end
  end
  write_rate(rate, id, rate.now_us + 0.5)
  return back_us
end
