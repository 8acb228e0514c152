--- semaphore/acquire: take a permit, or wait for one in the queue.
---
--- Safe to send twice: a request that has a permit keeps it, and its TTL starts
--- anew; one that was released or cancelled is not granted again. The limit is
--- the caller's own: it is held against all the weight that is out. A waiter
--- sends it again to say that it lives. Nothing overtakes one who lives.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE permit
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
--- INCLUDE limit
--- INCLUDE serve
--- INCLUDE ask
--- INCLUDE for_each
---
--- KEYS, for each request
---   1  lock     string   the record
---   2  holders  zset     holder by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV, for each request
---   1  holder   string   the request, and how it holds
---   2  ttl_ms   integer  how long the permit lasts
---   3  limit    integer  how much weight may be out
---   4  live_ms  integer  for how long it is known to live if it waits; 0: it does not
---   5  ticket   integer  its place, if it was told one; or minus its age in microseconds
---   6  wake     string   where waiters are told, but for the client's id
--- RETURN, for several requests an array of
---   {1, 0}        granted; permits have no fencing token
---   {0, left_ms}  busy: the first permit ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
---   {5, ticket, until_ms, again_ms}  queued: known to live until, and to ask again in
--- COST  O(log holders + log waiters) for each that is served

local function acquire(each)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  local holder, ttl_ms, limit, live_ms, ticket, wake = unpack(ARGV, 6 * each - 5, 6 * each)
  local keys = {lock = lock, holders = holders, queue = queue, waiters = waiters, wake = wake}
  ttl_ms, live_ms = tonumber(ttl_ms), tonumber(live_ms)

  local refusal, token, flag, ended, nobody = look(keys, string.sub(holder, 1, 34), ttl_ms)
  if refusal then return refusal end
  local now = clock()
  local now_ms = to_ms(now)
  local has_it = is_live(redis.call('ZSCORE', holders, holder), now_ms)
  if has_it or nobody and fits(holders, holder, limit, now_ms) then
    return let_in(keys, holder, ttl_ms, token, nobody and '0' or '1', ended, now)
  elseif nobody and live_ms == 0 then
    return {0, free_in(holders, now_ms)}
  end
  return line_up(keys, holder, limit, ttl_ms, live_ms, ticket, token, flag, ended, now)
end

if #KEYS == 4 then return acquire(1) end
return for_each(#KEYS / 4, function(each)
  return permit_at_once(each) or acquire(each)
end)
