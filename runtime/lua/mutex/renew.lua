--- mutex/renew: let a lease run for its whole TTL from now.
---
--- Safe to send twice. Changes an expiry and nothing else: a lease that ended
--- stays ended.
---
--- KEYS
---   1  lock    string   the record
--- ARGV
---   1  id      string   the request
---   2  ttl_ms  integer  how long the lease lasts from now
--- RETURN
---   1  renewed
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since
--- COST  O(1)

local lock = KEYS[1]
local id, ttl_ms = ARGV[1], ARGV[2]

local rec = redis.call('GET', lock)
if not rec then return 0 end
if string.sub(rec, 1, 36) ~= 'MH' .. id then return 2 end
redis.call('PEXPIRE', lock, ttl_ms)
return 1
