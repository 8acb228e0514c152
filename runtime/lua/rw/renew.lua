--- rw/renew: let a reader's or a writer's lease run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of an offer makes it a lease. A lease that
--- ended stays ended. The keys' expiry only grows: another lease may last longer.
---
--- INCLUDE record token fields holder holders rule_rw prolong extend
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
--- ARGV
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the lease lasts from now
--- RETURN
---   1  renewed
---   0  expired
---   2  taken: it had expired, and another owner writes now
--- COST  O(log holders)

local lock, holders, holder, ttl_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])

if extend(lock, holders, holder, ttl_ms) then return 1 end
local now_ms = to_ms(clock())
return is_written(holders, now_ms) and not owns(holders, holder, now_ms) and 2 or 0
