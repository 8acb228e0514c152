--- mutex/complete: end a lease whose work has succeeded, if this request holds it, and mark
--- the work as done.
---
--- Safe to send twice: the mark names the request. A lease that was lost marks nothing. All
--- waiters that ask for the work to succeed once are told, and leave the queue; the mutex goes
--- to the first of the others.
---
--- INCLUDE record token free fields waiter queue tell hand_over done
---
--- KEYS
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
---   4  done     string   the mark; see include/done
---   5  runs     string   the runs since the last success; see include/runs
---   6  tokens   string   no token that was given is greater
--- ARGV
---   1  id          string   the request
---   2  once_ms     integer  how long the work counts as done, or how long its tick lasts
---   3  tick_ms     integer  when its tick began; 0: it counts from now
---   4  granted_ms  integer  when it was granted the lock; 0: it counts from now
---   5  keep_ms     integer  how long the mark stays at least
---   6  token       integer  the token of its grant; 0: not compared
---   7  wake        string   the channel for hints, without the client's id
--- RETURN
---   1  completed, now or before
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since; or a late copy of its ask was granted
--- COST  O(waiters)

local lock, queue, waiters, done, runs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, once_ms, tick_ms, granted_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local keep_ms, token, wake = ARGV[5], ARGV[6], ARGV[7]

local rec = redis.call('GET', lock)
local has_it = rec and holds(rec, id)
if not has_it or token ~= '0' and tonumber(token) ~= tonumber(string.sub(rec, 37, 52)) then
  -- Its lease had ended. Nobody works under one that a late copy of its ask was granted.
  if has_it then finish(lock, queue, waiters, wake, rec, id) else leave(queue, waiters, id) end
  if string.sub(redis.call('GET', done) or '', 53) ~= id then return rec and 2 or 0 end
  -- Changes nothing, but writes: `WAIT` asks replicas for what its own connection has written.
  redis.call('SETRANGE', done, 52, id)
  return 1
end
local now_ms = to_ms(clock())
local until_ms = once_ms + (tonumber(tick_ms) > 0 and tick_ms or now_ms)
if tonumber(granted_ms) == 0 then granted_ms = now_ms end
local mark = string.format('%013.0f%013.0f%013.0f%013.0f', until_ms, now_ms, tick_ms, granted_ms) .. id
redis.call('SET', done, mark, 'PX', math.max(until_ms - now_ms, tonumber(keep_ms), 1))
redis.call('UNLINK', runs)
if until_ms > now_ms and string.sub(rec, 53, 53) == '1' then
  for _, waiter in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local said = redis.call('HGET', waiters, waiter)
    if said and kind_in(said) .. string.sub(demand_in(said), 1, 1) == 'M' .. ONCE then
      leave(queue, waiters, waiter)
      publish(wake, waiter, waiter)
    end
  end
end
finish(lock, queue, waiters, wake, rec, id)
return 1
