--- mutex/acquire_once: take the mutex for work that is to succeed once, or wait for it.
---
--- Like mutex/acquire, but refused as long as the work counts as done. The tick of a grant is
--- the one that runs when the request gets its answer.
---
--- INCLUDE record token grant fields remains waiter queue queued tell free hand_over take_turn recall channel acquire_mutex done
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders of another kind of lock, by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  done     string   the mark of the last success; see include/done
---   6  tokens   string   no token that was given is greater
--- ARGV
---   1  holder     string   the request and its owner, as for mutex/acquire
---   2  ttl_ms     integer  how long the lease lasts
---   3  waits      string   how it waits, as for mutex/acquire
---   4  period_ms  integer  how long a tick lasts; 0: there are no ticks
---   5  offset_ms  integer  when the first tick began, counted from the Unix epoch
--- RETURN
---   {1, token, tick_ms, last_ms}            granted; when its tick and that of the last
---                                           success began, 0 if there is none
---   {9, left_ms, completed_ms, until_ms}    done, and until when
---   all others as mutex/acquire
--- COST  O(log waiters)

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, period_ms, offset_ms = string.sub(ARGV[1], 1, 34), tonumber(ARGV[4]), tonumber(ARGV[5])

local rec, done = redis.call('GET', lock), redis.call('GET', KEYS[5])
local now_ms, until_ms, completed_ms, last_ms = to_ms(clock()), 0, 0, 0
if done then until_ms, completed_ms, last_ms = done_fields(done) end
if until_ms > now_ms and not (rec and holds(rec, id)) then
  leave(queue, waiters, id)
  return {9, until_ms - now_ms, completed_ms, until_ms}
end
local answer = acquire(lock, holders, queue, waiters, ARGV[1], ARGV[2], ARGV[3], rec, ONCE)
if answer[1] ~= 1 then return answer end
local tick_ms = period_ms > 0 and now_ms - (now_ms - offset_ms) % period_ms or 0
return {1, answer[2], tick_ms, last_ms}
