--- reentrant/renew: let one hold of an owner run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of an offer makes it a hold. A lease that
--- ended stays ended. The keys' expiry only grows: another lease may last longer.
---
--- INCLUDE record token fields holder holders prolong extend
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
--- ARGV
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the lease lasts from now
--- RETURN
---   1  renewed
---   0  expired: the owner may have other holds, but not this one
---   2  taken: it had expired, and another owner has it now
--- COST  O(log holders)

local lock, holders, holder, ttl_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])

if extend(lock, holders, holder, ttl_ms) then return 1 end
local now_ms = to_ms(clock())
return ends_at(holders, now_ms) and not owns(holders, holder, now_ms) and 2 or 0
