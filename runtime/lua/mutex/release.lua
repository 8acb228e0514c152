--- mutex/release: end a lease, if this request holds it.
---
--- Safe to send twice: the record remembers the request that ended last, and a
--- repeat is told the same. What another holds is not touched. The record
--- stays for a minute, free, so that the fencing tokens go on from it.
---
--- INCLUDE record
---
--- KEYS
---   1  lock     string   the record
--- ARGV
---   1  id       string   the request
---   2  keep_ms  integer  keep it held, without a holder, for this long; or 0
--- RETURN
---   1  released, now or before
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since
---   3  kept, now or before: it is held for the rest of its keep_ms
--- COST  O(1)

local lock = KEYS[1]
local id, keep_ms = ARGV[1], tonumber(ARGV[2])

local rec = redis.call('GET', lock)
if not rec then return 0 end
if string.sub(rec, 1, 36) ~= 'MH' .. id then
  if string.sub(rec, 54, 87) ~= id then return 2 end
  return string.sub(rec, 2, 2) == 'K' and 3 or 1
end
local token = string.sub(rec, 37, 52)
if keep_ms > 0 then
  redis.call('SET', lock, 'MK' .. id .. token .. '0' .. id, 'PX', keep_ms)
  return 3
end
redis.call('SET', lock, 'MF' .. NOBODY .. token .. '0' .. id, 'PX', GRACE_MS)
return 1
