--- mutex/acquire: take the mutex, or wait for it in the queue.
---
--- Safe to send twice: the same request gets the same token and a new TTL, and one that has
--- ended is never granted again. A waiter repeats it to show that it is alive. Nothing
--- overtakes a live waiter.
---
--- INCLUDE record token grant acquire_fast fields remains queue queued tell free hand_over take_turn recall for_each
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

local function acquire(each, rec)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  local id, ttl_ms, live_ms, told, owner, wake = unpack(ARGV, 6 * each - 5, 6 * each)
  live_ms = tonumber(live_ms)
  rec = rec or restored(lock, holders)
  local last, ended, flag, is_free = NO_TOKEN, NOBODY, nil, true
  if rec then
    if not is_record(rec) then return busy(lock, ttl_ms) end
    last, flag, ended = fields(rec)
    if ended == id then return {2} end
    if is_other(rec, 'M') then return {3} end
    if holds(rec, id) then
      redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
      return {1, tonumber(last)}
    end
    local state = string.sub(rec, 2, 2)
    is_free = state == 'F'
    if not is_free and live_ms == 0 then
      local is_recalled = state == 'H' and recall(lock, rec, wake)
      return busy(lock, ttl_ms, state == 'K' and 7 or is_recalled and 8)
    end
  end
  local position, until_ms, answer
  if live_ms > 0 then position, until_ms = join(queue, waiters, id, live_ms, told, 'M' .. owner, clock()) end
  if is_free then answer = take_turn(lock, queue, waiters, wake, id, owner, ttl_ms, last, ended) end
  if answer then return answer end
  if flag == '0' and not is_free then redis.call('SETRANGE', lock, 52, '1') end
  if not is_free and live_ms > 0 and redis.call('ZRANGE', queue, 0, 0)[1] == id then
    recall(lock, rec, wake, true)
  end
  local held = busy(lock, ttl_ms)
  return live_ms == 0 and held or queued(queue, id, position, until_ms, live_ms, held[2])
end

if #KEYS == 4 then return acquire(1, found) end
return for_each(#KEYS / 4, function(each)
  local granted, rec = grant_fast(each)
  return granted or acquire(each, rec)
end)
