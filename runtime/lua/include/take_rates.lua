--- include/take_rates: takes from several rates, all or none. Goes after include/take_rate and
--- include/give_back_rate.

-- Gives back all that was taken.
local function give_back_rates(rates)
  for _, rate in ipairs(rates) do
    pcall(function() give_back_rate(read_rate(rate.key, rate.id, rate.weight_us)) end)
  end
end

-- Takes from all of them, and returns how long each is used up.
local function take_rates(rates)
  local all_us = {}
  for each, rate in ipairs(rates) do
    local is_ok, said = pcall(take_rate, rate)
    if not is_ok then
      give_back_rates(rates)
      error(said, 0)
    end
    all_us[each] = said
  end
  return all_us
end
