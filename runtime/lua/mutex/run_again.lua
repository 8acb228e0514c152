--- mutex/run_again: forget that work is done, and how often it was tried, and note who asked for it.
---
--- Whoever asks for the work next gets it. A mutex that is kept without a holder, as after a failed
--- run of a job, becomes free. A run that holds the mutex goes on, and counts when it succeeds.
---
--- Safe to send twice, but the second answer says that nothing was done.
---
--- INCLUDE record token free fields waiter queue tell hand_over done
---
--- KEYS
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
---   4  done     string   the mark of the last success; see include/done
---   5  runs     string   the runs since then; see include/runs
---   6  again    string   the server's milliseconds, with 13 digits; who asked for it; and why
---   7  tokens   string   no token that was given is greater
--- ARGV
---   1  said     string   who asks for it, a line's end, and why
---   2  keep_ms  integer  how long that is remembered
---   3  wake     string   the channel for hints, without the client's id
--- RETURN
---   {completed_ms, is_running}  when the work had succeeded (0: it was not done); 1 if it runs now
--- COST  O(log waiters)

local lock, queue, waiters, done = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local runs, again, said, keep_ms, wake = KEYS[5], KEYS[6], ARGV[1], ARGV[2], ARGV[3]

local rec, mark = redis.call('GET', lock), redis.call('GET', done)
local completed_ms = mark and done_fields(mark) or 0
local state = rec and is_record(rec) and string.sub(rec, 1, 2)
redis.call('SET', again, string.format('%013.0f', to_ms(clock())) .. said, 'PX', keep_ms)
redis.call('UNLINK', done, runs)
if state == 'MK' then finish(lock, queue, waiters, wake, rec, string.sub(rec, 3, 36)) end
return {completed_ms, state == 'MH' and 1 or 0}
