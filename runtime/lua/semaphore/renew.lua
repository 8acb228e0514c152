--- semaphore/renew: let a permit run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of a permit that was handed over makes
--- it one like any other. What ended stays ended. The keys' expiry only grows:
--- another permit may last longer.
---
--- INCLUDE record
--- INCLUDE permits
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     permit by deadline
--- ARGV
---   1  id       string   the request
---   2  weight   integer  how much its permit takes
---   3  ttl_ms   integer  how long the permit lasts from now
--- RETURN
---   1  renewed
---   0  expired
--- COST  O(log permits)

local lock, holders = KEYS[1], KEYS[2]
local me, ttl_ms = permit(ARGV[1], ARGV[2]), tonumber(ARGV[3])

local now_ms = to_ms(clock())
if not is_live(redis.call('ZSCORE', holders, me), now_ms) then return 0 end
redis.call('ZADD', holders, now_ms + ttl_ms, me)
redis.call('PEXPIRE', holders, ttl_ms, 'GT')
redis.call('PEXPIRE', lock, ttl_ms, 'GT')
return 1
