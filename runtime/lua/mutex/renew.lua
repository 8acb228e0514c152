--- mutex/renew: let a lease run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of a lease that was handed over makes
--- it held. Nothing else changes but the expiry: what ended stays ended.
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
local holder = string.sub(rec, 1, 36)
if holder == 'MH' .. id then
  redis.call('PEXPIRE', lock, ttl_ms)
elseif holder == 'MO' .. id then
  redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
else
  return 2
end
return 1
