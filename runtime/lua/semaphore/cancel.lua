--- semaphore/cancel: take an acquisition back, whether it was granted, waits, or neither.
---
--- Safe to send twice, and before the acquire it takes back: the record
--- remembers the request, and an acquire that comes late is refused. Serves who
--- waits: what was in their way may be gone.
---
--- INCLUDE record
--- INCLUDE queue
--- INCLUDE permits
--- INCLUDE serve
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     permit by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV
---   1  id       string   the request
---   2  weight   integer  how much its permit takes
---   3  wake     string   where waiters are told, but for the client's id
--- RETURN
---   1  it had been granted, and is released
---   0  it held nothing
--- COST  O(log permits + log waiters) for each that is served

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, weight, wake = ARGV[1], ARGV[2], ARGV[3]

local rec = redis.call('GET', lock)
local me, now_ms = permit(id, weight), to_ms(clock())
local held = is_live(redis.call('ZSCORE', holders, me), now_ms)
take_out(holders, me)
leave(queue, waiters, id)
move_on(lock, holders, queue, waiters, wake, rec, id, now_ms)
return held and 1 or 0
