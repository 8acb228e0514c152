--- mutex/cancel: take an acquisition back, whether it was granted, waits, or neither.
---
--- Safe to send twice, and before the acquire that it cancels: the record remembers the
--- request, and a late acquire is refused.
---
--- INCLUDE record token free fields remains waiter queue tell hand_over
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders of another kind of lock, by deadline
---   3  queue    zset    request ids by position
---   4  waiters  hash    each waiter's last ask
---   5  tokens   string  no token that was given is greater
--- ARGV
---   1  id       string  the request
---   2  wake     string  the channel for hints, without the client's id
--- RETURN
---   1  it was granted, and is released now
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
-- A free mutex with waiters was taken by force, and this request was told to ask.
if not rec or is_record(rec) and string.find(rec, '^MF') then
  hand_over(lock, queue, waiters, wake, rec, id)
elseif is_record(rec) then
  redis.call('SETRANGE', lock, 53, id)
end
return 0
