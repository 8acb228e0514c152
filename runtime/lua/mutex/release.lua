--- mutex/release: end a lease, if this request holds it, and hand the mutex over.
---
--- Safe to send twice: the record remembers the request that ended last, and a
--- repeat gets the same answer. Another request's lease is not touched. The free record
--- stays for a minute, so that the fencing tokens go on from it.
---
--- INCLUDE record free release_fast token fields queue tell hand_over for_each
---
--- KEYS, for each request
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
--- ARGV, for each request
---   1  id       string   the request
---   2  keep_ms  integer  keep it held without a holder for this long; or 0
---   3  wake     string   the channel for hints, without the client's id
--- RETURN, for several requests an array of
---   1  released, now or before
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since
---   3  kept, now or before: it is held for the rest of its keep_ms
--- COST  O(log waiters)

local function release(each, rec)
  local lock, queue, waiters = unpack(KEYS, 3 * each - 2, 3 * each)
  local id, keep_ms, wake = unpack(ARGV, 3 * each - 2, 3 * each)
  if not rec or not holds(rec, id) then
    -- A late copy of its acquire may have queued it again.
    leave(queue, waiters, id)
    if not rec then return 0 end
    if string.sub(rec, 54, 87) ~= id then return 2 end
    return string.sub(rec, 2, 2) == 'K' and 3 or 1
  end
  if tonumber(keep_ms) > 0 then
    redis.call('SET', lock, 'MK' .. id .. string.sub(rec, 37, 53) .. id, 'PX', keep_ms)
    -- The first waiter asks, and so learns how long the mutex is kept.
    local first = string.sub(rec, 53, 53) == '1' and first_waiter(queue, waiters, to_ms(clock()))
    if first then publish(wake, first, first) end
    return 3
  end
  finish(lock, queue, waiters, wake, rec, id)
  return 1
end

if #KEYS == 3 then return release(1, found) end
return for_each(#KEYS / 3, function(each)
  local freed, rec = release_fast(each)
  return freed or release(each, rec)
end)
