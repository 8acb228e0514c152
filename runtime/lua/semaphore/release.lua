--- semaphore/release: give a permit back, if this request has it, and serve who waits.
---
--- Safe to send twice: a repeat gives back nothing, and is told that the permit
--- was released as long as no other was released since.
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
---   1  released, now or before
---   0  expired
--- COST  O(log permits + log waiters) for each that is served

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, weight, wake = ARGV[1], ARGV[2], ARGV[3]

local rec = redis.call('GET', lock)
local me, now_ms = permit(id, weight), to_ms(clock())
if not is_live(redis.call('ZSCORE', holders, me), now_ms) then
  -- A late copy of an ask may have queued it again.
  leave(queue, waiters, id)
  return rec and string.sub(rec, 54, 87) == id and 1 or 0
end
take_out(holders, me)
move_on(lock, holders, queue, waiters, wake, rec, id, now_ms)
return 1
