--- mutex/acquire: take the mutex, or wait for it in the queue.
---
--- Safe to send twice: the same request gets the same token and a new TTL, and one that has
--- ended is never granted again, as long as the record says so. A waiter repeats it to show that
--- it is alive. Nothing overtakes a live waiter.
---
--- INCLUDE record acquire_fast token acquire_many grant fields remains waiter queue queued tell free hand_over take_turn recall recall_clients other_kind channel acquire_mutex for_each
---
--- KEYS, for each request, and the last one once
---   1  lock     string   the record
---   2  holders  zset     holders of another kind of lock, by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  tokens   string   no token that was given is greater
--- ARGV, for each request
---   1  holder   string   the request; then `@` and the owner's name, if it has one
---   2  ttl_ms   integer  how long the lease lasts
---   3  waits    string   how it waits, as include/waiter reads it; empty: it does not
--- RETURN, for several requests an array of
---   {1, token}    granted
---   {0, left_ms}  busy: held for this much longer; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key had no expiry, and has the TTL now
---   {5, position, until_ms, again_ms}  queued: alive until then; ask again after again_ms
---   {7, left_ms}  busy: nobody holds it, and it is kept for this much longer (hold_at_least)
---   {8, left_ms}  busy: its client lets it linger, and was asked to release it; ask again soon
---   {10, left_ms}  the same, and the lease is of another kind
--- COST  O(log waiters)

local function ask(each, rec)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  return acquire(lock, holders, queue, waiters, ARGV[3 * each - 2], ARGV[3 * each - 1], ARGV[3 * each], rec)
end

if count == 1 then return ask(1, found) end
return for_each(count, function(each)
  return answers[each] or ask(each, redis.call('GET', KEYS[4 * each - 3]))
end)
