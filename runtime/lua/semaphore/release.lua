--- semaphore/release: give a permit back, if this request has it.
---
--- Safe to send twice: a repeat gives back nothing, and is told that the permit
--- was released as long as no other was released since.
---
--- INCLUDE record
--- INCLUDE permits
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    request id by deadline
--- ARGV
---   1  id       string  the request
--- RETURN
---   1  released, now or before
---   0  expired
--- COST  O(log permits)

local lock, holders = KEYS[1], KEYS[2]
local id = ARGV[1]

local rec = redis.call('GET', lock)
local now = now_ms()
if not is_live(redis.call('ZSCORE', holders, id), now) then
  return rec and string.sub(rec, 54, 87) == id and 1 or 0
end
finish(lock, holders, rec, id, now)
return 1
