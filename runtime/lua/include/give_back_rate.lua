--- include/give_back_rate: gives back what a request took of a rate. Goes after include/write_rate.

-- If more requests are behind one that is given back, they do not move.
local MOST = 64

-- Adds a free span behind the others. It may touch the last of them.
local function add_free(rate, from_us, until_us)
  local last = rate.free[#rate.free]
  if last and last[2] == from_us then last[2] = until_us else table.insert(rate.free, {from_us, until_us}) end
end

-- Gives the span of a request back, and returns how much of it was left. A later copy of the request
-- takes nothing. If all others may have begun, those behind it move forward, as if the request had
-- never come. If one waits, or more than MOST are behind it, the span is free.
local function give_back_rate(rate)
  local until_us = not rate.was_given_back and rate.until_us or 0
  local from_us, move_us, behind = math.max(until_us - rate.weight_us, rate.now_us), 0, {}
  local back_us = math.max(until_us - from_us, 0)
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
  write_rate(rate, rate.now_us + 0.5)
  return back_us
end
