--- include/place_rate: finds out when a request may begin that takes from rates. Goes after
--- include/rate.

-- Forgets requests of which no copy can arrive any more.
local function forget(rate, ids)
  local settled = {}
  for at = 1, #ids, 34 do settled[#settled + 1] = string.sub(ids, at, at + 33) end
  if settled[1] then redis.call('ZREM', rate, unpack(settled)) end
end

-- What a request wants of a rate. Returns nothing if it was given back.
local function read_part(key, id, weight_us, burst_us, settled, wait_us)
  forget(key, settled)
  local rate = read_rate(key)
  local until_us, was_given_back = read_span(rate, id)
  if until_us and was_given_back then return nil end
  return {
    rate = rate, id = id, until_us = until_us,
    weight_us = tonumber(weight_us), burst_us = tonumber(burst_us), wait_us = tonumber(wait_us),
  }
end

-- Finds the first span of a part that begins at this time or later, and returns when its request may
-- begin.
local function place(part, at_us)
  local rate, from_us = part.rate, nil
  for _, span in ipairs(rate.free) do
    from_us = math.max(span[1], at_us)
    if from_us + part.weight_us <= span[2] then break end
    from_us = nil
  end
  part.from_us, part.at_us = from_us or math.max(rate.used_us, at_us), at_us
  local until_us = part.until_us or part.from_us + part.weight_us
  return math.max(at_us, until_us - part.burst_us)
end

-- Finds spans for all parts, so that all may begin together. Returns nothing if they may begin now;
-- or else which one is the last, after how long, and whether one would have to wait for too long.
local function place_all(parts)
  local _, at_us = clock()
  local now_us, last = at_us, nil
  repeat
    local before_us = at_us
    for each, part in ipairs(parts) do
      local begins_us = place(part, before_us)
      if begins_us > at_us then at_us, last = begins_us, each end
    end
  until at_us == before_us
  local is_long = false
  for _, part in ipairs(parts) do
    is_long = is_long or not part.until_us and at_us - now_us > part.wait_us
  end
  return last, at_us - now_us, is_long
end
