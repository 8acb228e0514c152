--- mutex/acquire_once: take the mutex for work that is to succeed once, or wait for it.
---
--- Like mutex/acquire, but refused as long as the work counts as done: for `once_ms` after it
--- succeeded, or to the end of the tick in which that run was granted the lock. The tick of a grant
--- is the one that runs when the request gets its answer.
---
--- INCLUDE record token grant fields remains waiter queue queued tell free hand_over take_turn recall recall_clients other_kind channel acquire_mutex done runs
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders of another kind of lock, by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  done     string   the mark of the last success; see include/done
---   6  runs     string   with ticks: the runs since the last success; see include/runs
---   7  tokens   string   no token that was given is greater
--- ARGV
---   1  holder     string   the request and its owner, as for mutex/acquire
---   2  ttl_ms     integer  how long the lease lasts
---   3  waits      string   how it waits, as for mutex/acquire
---   4  once_ms    integer  how long the work counts as done, or how long a tick lasts
---   5  offset_ms  integer  when a tick began, counted from the Unix epoch; empty: no ticks
---   6  keep_ms    integer  how long the runs are remembered
--- RETURN
---   {1, token, tick_ms, last_ms, granted_ms}  with ticks: granted; when its tick began, when the run
---                                             of the last success was granted (0: none), and the time
---   {9, left_ms, completed_ms, until_ms}      done, and until when
---   all others as mutex/acquire
--- COST  O(log waiters)

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, once_ms, offset_ms = string.sub(ARGV[1], 1, 34), tonumber(ARGV[4]), tonumber(ARGV[5])

local function tick_at(time_ms)
  return time_ms - (time_ms - offset_ms) % once_ms
end

local rec, done = redis.call('GET', lock), redis.call('GET', KEYS[5])
-- It decides nothing, whatever it is.
local runs = offset_ms and redis.pcall('GET', KEYS[6])
local is_held = rec and string.sub(rec, 1, 36) == 'MH' .. id
local now_ms, until_ms, completed_ms, last_ms = to_ms(clock()), 0, 0, 0
if done then
  completed_ms, last_ms = done_fields(done)
  until_ms = (offset_ms and tick_at(last_ms) or completed_ms) + once_ms
end
local is_done = until_ms > now_ms
if is_done and not is_held then
  leave(queue, waiters, id)
  -- An offer of work that is done goes to the next waiter.
  if rec and holds(rec, id) then finish(lock, queue, waiters, channel(), rec, id) end
  -- Its own request may have counted for less time.
  local left_ms = until_ms - now_ms
  if redis.call('PTTL', KEYS[5]) < left_ms then redis.call('PEXPIRE', KEYS[5], left_ms) end
  return {9, left_ms, completed_ms, until_ms}
end
local answer = acquire(lock, holders, queue, waiters, ARGV[1], ARGV[2], ARGV[3], rec, ONCE)
if answer[1] ~= 1 or not offset_ms then return answer end
-- The lease was granted in a later tick than the last success: the clock went back since.
local granted_ms = is_done and until_ms or now_ms
local began_ms = tick_at(granted_ms)
if not is_held then note_run(KEYS[6], runs, id, granted_ms, last_ms, began_ms, once_ms, ARGV[6]) end
return {1, answer[2], began_ms, last_ms, granted_ms}
