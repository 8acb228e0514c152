--- include/take_locks: takes mutexes and permits that are free, and of rates, and notes their tokens
--- and times behind the first entry of `granted`. Goes after include/take_mutex, include/take_permit
--- and include/take_rates.

-- A user may lack a right, so the mutexes come last: a permit and a rate can be given back.
local function take_locks(free, rates, ttl_ms, granted)
  local is_ok, failure = pcall(function()
    for each, lock in ipairs(free) do
      if lock.holder then take_permit(lock, ttl_ms) end
      granted[1 + each] = 0
    end
    for each, used_us in ipairs(take_rates(rates)) do granted[1 + #free + each] = used_us end
    for each, lock in ipairs(free) do
      if not lock.holder then granted[1 + each] = take_mutex(lock, ttl_ms) end
    end
  end)
  if is_ok then return end
  for _, taken in ipairs(free) do
    if taken.holder then pcall(take_out, taken.holders, taken.holder) end
  end
  give_back_rates(rates)
  error(failure, 0)
end
