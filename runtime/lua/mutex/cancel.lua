--- mutex/cancel: take an acquisition back, whether it was granted, waits, or neither.
---
--- Safe to send twice, and before the acquire it takes back: the record
--- remembers the request, and an acquire that comes late is refused.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE free
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE hand_over
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    who holds another kind of lock, by deadline
---   3  queue    zset    request id by ticket
---   4  waiters  hash    request id to what it said last
--- ARGV
---   1  id       string  the request
---   2  wake     string  where waiters are told, but for the client's id
--- RETURN
---   1  it had been granted, and is released
---   0  it held nothing
--- COST  O(log waiters)

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, wake = ARGV[1], ARGV[2]

local rec = redis.call('GET', lock) or restored(lock, holders)
if rec and holds(rec, id) then
  finish(lock, queue, waiters, wake, rec, id)
  return 1
end
leave(queue, waiters, id)
-- Free though it is waited for: it was taken by force, and he was told to ask.
if not rec or is_record(rec) and string.find(rec, '^MF') then
  hand_over(lock, queue, waiters, wake, rec, id)
elseif is_record(rec) then
  redis.call('SETRANGE', lock, 53, id)
end
return 0
