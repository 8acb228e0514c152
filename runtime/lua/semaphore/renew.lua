--- semaphore/renew: let a permit run for its whole TTL from now.
---
--- Safe to send twice. A permit that ended stays ended. The keys' expiry only
--- grows: another permit may last longer.
---
--- INCLUDE record
--- INCLUDE permits
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     request id by deadline
--- ARGV
---   1  id       string   the request
---   2  ttl_ms   integer  how long the permit lasts from now
--- RETURN
---   1  renewed
---   0  expired
--- COST  O(log permits)

local lock, holders = KEYS[1], KEYS[2]
local id, ttl_ms = ARGV[1], tonumber(ARGV[2])

local now = now_ms()
if not is_live(redis.call('ZSCORE', holders, id), now) then return 0 end
redis.call('ZADD', holders, now + ttl_ms, id)
redis.call('PEXPIRE', holders, ttl_ms, 'GT')
redis.call('PEXPIRE', lock, ttl_ms, 'GT')
return 1
