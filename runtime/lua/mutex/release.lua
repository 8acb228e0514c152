--- mutex/release: end a lease, if this request holds it, and hand the mutex over.
---
--- Safe to send twice: the record remembers the request that ended last, and a
--- repeat gets the same answer. Another request's lease is not touched. The free record
--- stays for a minute, so that late copies of the request's commands are refused. On a cluster
--- the fencing tokens go on from it.
---
--- If all commands of the request were answered, no copy of one can come any more: a command is
--- sent once, and again only if it had no answer. Then nobody needs the free record. The client
--- says so, and the record is deleted if nobody waits. A repeat of that release gets 0.
---
--- What stays: if nothing follows the request, no record. With `:0`, the free record. With `:` and
--- another number, the mutex is held without a holder for so many milliseconds.
---
--- INCLUDE record release_fast token release_many free fields waiter queue tell hand_over channel for_each
---
--- KEYS, for each request, and the last one once
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
---   4  tokens   string   no token that was given is greater
--- ARGV, for each request
---   1  ends     string   the request, and what stays of its record
--- RETURN, for several requests an array of
---   1  released, now or before
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since
---   3  kept, now or before: it is held for the rest of that time
--- COST  O(log waiters)

local function release(each, rec)
  local lock, queue, waiters = unpack(KEYS, 3 * each - 2, 3 * each)
  local id, keep_ms, wake = sub(ARGV[each], 1, 34), sub(ARGV[each], 36), channel()
  if not rec or not holds(rec, id) then
    -- A late copy of its acquire may have queued it again.
    leave(queue, waiters, id)
    if not rec then return 0 end
    if string.sub(rec, 54, 87) ~= id then return 2 end
    return string.sub(rec, 2, 2) == 'K' and 3 or 1
  end
  if keep_ms ~= '' and keep_ms ~= '0' then
    redis.call('SET', lock, 'MK' .. id .. string.sub(rec, 37, 53) .. id, 'PX', keep_ms)
    -- The first waiter asks, and so learns how long the mutex is kept.
    local first = string.sub(rec, 53, 53) == '1' and first_waiter(queue, waiters, to_ms(clock()))
    if first then publish(wake, first, first) end
    return 3
  end
  finish(lock, queue, waiters, wake, rec, id)
  return 1
end

if count == 1 then return release(1, found) end
return for_each(count, function(each)
  return answers[each] or release(each, redis.call('GET', KEYS[3 * each - 2]))
end)
