--- include/place_rate: finds out when a request may begin that takes from rates. Goes after
--- include/rate.

-- Reads a rate, and what a request wants of it. Returns nothing if it was given back. Forgets requests
-- of which no copy can arrive any more.
local function read_part(key, id, weight_us, burst_us, settled, wait_us)
  if settled ~= '' then
    local ids = {}
    for at = 1, #settled, 34 do ids[#ids + 1] = string.sub(settled, at, at + 33) end
    redis.call('ZREM', key, unpack(ids))
  end
  local rate = read_rate(key, id, tonumber(weight_us))
  if rate.was_given_back then return nil end
  rate.burst_us, rate.wait_us = tonumber(burst_us), tonumber(wait_us)
  return rate
end

-- Finds the first span for a request that begins at this time or later, and returns when the request
-- may begin.
local function place(rate, at_us)
  local from_us
  for _, span in ipairs(rate.free) do
    from_us = math.max(span[1], at_us)
    if from_us + rate.weight_us <= span[2] then break end
    from_us = nil
  end
  rate.from_us, rate.at_us = from_us or math.max(rate.used_us, at_us), at_us
  local until_us = rate.until_us or rate.from_us + rate.weight_us
  return math.max(at_us, until_us - rate.burst_us)
end

-- Finds spans in all rates, so that a request may begin in all of them together. Returns nothing if that
-- is now; or else which rate is the last, after how long, and whether that is too long.
local function place_all(rates)
  local _, at_us = clock()
  local now_us, last = at_us, nil
  repeat
    local before_us = at_us
    for each, rate in ipairs(rates) do
      local begins_us = place(rate, before_us)
      if begins_us > at_us then at_us, last = begins_us, each end
    end
  until at_us == before_us
  if not last then return nil end
  local is_long = false
  for _, rate in ipairs(rates) do is_long = is_long or not rate.until_us and at_us - now_us > rate.wait_us end
  return last, at_us - now_us, is_long
end
