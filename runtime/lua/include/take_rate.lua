--- include/take_rate: takes from a rate. Goes after include/write_rate and include/place_rate.

-- Cuts the span of a request out of the free ones.
local function cut(rate, from_us, until_us)
  local free = {}
  for _, span in ipairs(rate.free) do
    if from_us < span[2] and span[1] < until_us then
      if math.max(span[1], rate.now_us) < from_us then free[#free + 1] = {span[1], from_us} end
      if until_us < span[2] then free[#free + 1] = {until_us, span[2]} end
    else
      free[#free + 1] = span
    end
  end
  if from_us > rate.used_us then free[#free + 1] = {rate.used_us, from_us} end
  rate.free = free
end

-- Takes the span that was found, and returns how long the rate is used up from now. A repeat changes
-- nothing, but writes: `WAIT` asks replicas for what its own connection has written.
local function take_rate(rate)
  if rate.until_us then
    keep_rate(rate, rate.until_us)
  else
    local until_us = rate.from_us + rate.weight_us
    if rate.free[1] or rate.from_us > rate.used_us then cut(rate, rate.from_us, until_us) end
    rate.used_us = math.max(rate.used_us, until_us)
    rate.begins_us = math.max(rate.begins_us, rate.at_us)
    write_rate(rate, until_us)
  end
  return rate.used_us - rate.now_us
end
