--- include/take_rate: takes from rates, all or none. Goes after include/write_rate and
--- include/place_rate.

-- Takes the span that was found, and returns how long the rate is used up from now. A repeat changes
-- nothing, but writes: `WAIT` asks replicas for what its own connection has written.
local function take_rate(part)
  local rate, from_us = part.rate, part.from_us
  if part.until_us then
    keep_rate(rate, part.until_us)
    return rate.used_us - rate.now_us
  end
  local until_us, free = from_us + part.weight_us, {}
  for _, span in ipairs(rate.free) do
    if from_us < span[2] and span[1] < until_us then
      if math.max(span[1], rate.now_us) < from_us then free[#free + 1] = {span[1], from_us} end
      if until_us < span[2] then free[#free + 1] = {until_us, span[2]} end
    else
      free[#free + 1] = span
    end
  end
  if from_us > rate.used_us then free[#free + 1] = {rate.used_us, from_us} end
  rate.free, rate.used_us = free, math.max(rate.used_us, until_us)
  rate.begins_us = math.max(rate.begins_us, part.at_us)
  write_rate(rate, part.id, until_us)
  return rate.used_us - rate.now_us
end

-- Gives back all that was taken.
local function give_back_rates(parts)
  for _, part in ipairs(parts) do
    pcall(function() give_back_rate(read_rate(part.rate.key), part.id, part.weight_us) end)
  end
end

-- Takes from all of them, and returns how long each is used up.
local function take_rates(parts)
  local all_us = {}
  for each, part in ipairs(parts) do
    local is_ok, said = pcall(take_rate, part)
    if not is_ok then
      give_back_rates(parts)
      error(said, 0)
    end
    all_us[each] = said
  end
  return all_us
end
