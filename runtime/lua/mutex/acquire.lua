--- mutex/acquire: take the mutex, or wait for it in the queue.
---
--- Safe to send twice: the same request gets the same token and a new TTL, and one that has
--- ended is never granted again. A waiter repeats it to show that it is alive. Nothing
--- overtakes a live waiter.
---
--- INCLUDE record token grant acquire_fast fields remains queue queued tell free hand_over take_turn recall acquire_mutex for_each
---
--- KEYS, for each request
---   1  lock     string   the record
---   2  holders  zset     holders of another kind of lock, by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
--- ARGV, for each request
---   1  id        string   the request
---   2  ttl_ms    integer  how long the lease lasts
---   3  live_ms   integer  how long a waiter is taken to be alive; 0: it does not wait
---   4  position  integer  its position in the queue; if it has none, minus its age in microseconds
---   5  owner     string   `@` and the owner's name, or empty
---   6  wake      string   the channel for hints, without the client's id
--- RETURN, for several requests an array of
---   {1, token}    granted
---   {0, left_ms}  busy: held for this much longer; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key had no expiry, and has the TTL now
---   {5, position, until_ms, again_ms}  queued: alive until then; ask again after again_ms
---   {7, left_ms}  busy: nobody holds it, and it is kept for this much longer (hold_at_least)
---   {8, left_ms}  busy: its client lets it linger, and was asked to release it; ask again soon
--- COST  O(log waiters)

if #KEYS == 4 then return acquire(1, found) end
return for_each(#KEYS / 4, function(each)
  local granted, rec = grant_fast(each)
  return granted or acquire(each, rec)
end)
