--- semaphore/renew: let a permit run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of an offer makes it a permit. A lease that
--- ended stays ended. The keys' expiry only grows: another lease may last longer.
---
--- INCLUDE record token prolong for_each
---
--- KEYS, for each request
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
--- ARGV, for each request
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the lease lasts from now
--- RETURN, for several requests an array of
---   1  renewed
---   0  expired
--- COST  O(log holders)

local function renew(each)
  local lock, holders, holder, ttl_ms = KEYS[2 * each - 1], KEYS[2 * each], ARGV[2 * each - 1], ARGV[2 * each]
  local now_ms = tonumber(string.sub(clock(), 1, 13))

  local deadline_ms = redis.call('ZSCORE', holders, holder)
  if not deadline_ms or tonumber(deadline_ms) <= now_ms then return 0 end
  redis.call('ZADD', holders, now_ms + ttl_ms, holder)
  prolong(holders, ttl_ms)
  prolong(lock, ttl_ms)
  return 1
end

if #KEYS == 2 then return renew(1) end
return for_each(#KEYS / 2, renew)
