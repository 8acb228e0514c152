--- semaphore/acquire: take a permit, or wait for one in the queue.
---
--- Safe to send twice: a request that has a permit keeps it, and its TTL starts
--- anew. A request that was released or cancelled is not granted again. Each request brings
--- its own limit for the total weight. A waiter sends it again to show that it is alive.
--- Nothing overtakes a live waiter.
---
--- INCLUDE record token permit_acquire_fast fields remains waiter queue queued tell holder holders rule_semaphore serve recall recall_clients other_kind ask for_each
---
--- KEYS, for each request
---   1  lock     string   the record
---   2  holders  zset     holders by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
--- ARGV, for each request
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the permit lasts
---   3  limit    integer  the highest total weight
---   4  waits    string   how it waits, as include/waiter reads it; empty: it does not
---   5  wake     string   the channel for hints, without the client's id
--- RETURN, for several requests an array of
---   {1, 0}        granted; permits have no fencing token
---   {0, left_ms}  busy: the first permit ends in this long at the latest; 0: ask again at once
---   {8, left_ms}  busy: clients let permits linger, and were asked to release them; ask again soon
---   {10, left_ms}  the same, and the lease is of another kind
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key is not ours and had no expiry, and has the TTL now
---   {5, position, until_ms, again_ms}  queued: alive until then; ask again after again_ms
--- COST  O(log holders + log waiters) for each that is served

local function acquire(each)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  local holder, ttl_ms, limit, waits, wake = unpack(ARGV, 5 * each - 4, 5 * each)
  local keys = {lock = lock, holders = holders, queue = queue, waiters = waiters, wake = wake}
  ttl_ms = tonumber(ttl_ms)

  local refusal, token, flag, ended, nobody = look(keys, string.sub(holder, 1, 34), ttl_ms, waits)
  if refusal then return refusal end
  local now = clock()
  local now_ms = to_ms(now)
  local has_it = is_live(redis.call('ZSCORE', holders, holder), now_ms)
  if has_it or nobody and fits(holders, holder, limit, now_ms) then
    keys.limit = counted(limit)
    return let_in(keys, holder, ttl_ms, token, nobody and '0' or '1', ended, now)
  elseif nobody and waits == '' then
    return refused(keys, free_in(holders, now_ms), now_ms)
  end
  return line_up(keys, holder, limit, ttl_ms, waits, token, flag, ended, now)
end

if #KEYS == 4 then return acquire(1) end
return for_each(#KEYS / 4, function(each)
  return permit_acquire_fast(each) or acquire(each)
end)
