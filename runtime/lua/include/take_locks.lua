--- include/take_locks: takes mutexes and permits that are free, and notes their tokens behind the
--- first entry of `granted`. Goes after include/take_mutex and include/take_permit.

-- The permits come first: their commands may fail where the user lacks a right. Then all
-- permits are taken back, and no mutex was taken yet.
local function take_locks(free, ttl_ms, granted)
  for each, lock in ipairs(free) do
    local is_ok, failure = true, nil
    if lock.holder then is_ok, failure = pcall(take_permit, lock, ttl_ms) end
    if not is_ok then
      for _, taken in ipairs(free) do
        if taken.holder then pcall(take_out, taken.holders, taken.holder) end
      end
      error(failure, 0)
    end
    granted[1 + each] = 0
  end
  for each, lock in ipairs(free) do
    if not lock.holder then granted[1 + each] = take_mutex(lock, ttl_ms) end
  end
end
