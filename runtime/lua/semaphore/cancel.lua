--- semaphore/cancel: take an acquisition back, whether it was granted or not.
---
--- Safe to send twice, and before the acquire it takes back: the record
--- remembers the request, and an acquire that comes late is refused.
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
---   1  it had been granted, and is released
---   0  it held nothing
--- COST  O(log permits)

local lock, holders = KEYS[1], KEYS[2]
local id = ARGV[1]

local rec = redis.call('GET', lock)
local now = now_ms()
local held = is_live(redis.call('ZSCORE', holders, id), now)
finish(lock, holders, rec, id, now)
return held and 1 or 0
