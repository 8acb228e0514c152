--- include/extend: the renewal of a lease among several holders. Goes after
--- include/holders and include/prolong.

-- Lets a live lease run for its whole TTL from now. The keys' expiry only grows: another
-- lease may last longer.
local function extend(lock, holders, holder, ttl_ms)
  local now_ms = to_ms(clock())
  if not is_live(redis.call('ZSCORE', holders, holder), now_ms) then return false end
  redis.call('ZADD', holders, now_ms + ttl_ms, holder)
  if is_writer(holder) then redis.call('ZADD', holders, -(now_ms + ttl_ms), '!') end
  prolong(holders, ttl_ms)
  prolong(lock, ttl_ms)
  return true
end
