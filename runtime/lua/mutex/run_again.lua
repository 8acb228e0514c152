--- mutex/run_again: forget that work is done, and how often it was tried, and note who asked for it.
---
--- Whoever asks for the work next gets it. A mutex that is kept without a holder, as after a failed
--- run of a job, becomes free. A run that holds the mutex goes on, and counts when it succeeds. If
--- there is nothing to forget, nothing is noted.
---
--- A copy that arrives late forgets a success of the meantime: no client sends it again by itself.
---
--- INCLUDE record token free fields waiter queue tell hand_over
---
--- KEYS
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
---   4  done     string   the mark of the last success; see include/done
---   5  runs     string   the runs since then; see include/runs
---   6  again    string   when, and how long a tick lasts; then `said`; see docs/keys.md
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

local rec, mark, tried = redis.call('GET', lock), redis.call('GET', done), redis.call('GET', runs)
local state = rec and is_record(rec) and string.sub(rec, 1, 2)
local function number(text, first, last)
  return text and tonumber(string.sub(text, first, last)) or 0
end
local completed_ms, tick_ms = number(mark, 14, 26), number(tried, 27, 39)
if number(mark, 27, 39) > 0 then tick_ms = number(mark, 1, 13) - number(mark, 27, 39) end
if mark or tried or state == 'MK' then
  local times = string.format('%013.0f%013.0f', to_ms(clock()), tick_ms)
  redis.call('SET', again, times .. said, 'PX', keep_ms)
end
redis.call('UNLINK', done)
if tried and state == 'MH' and string.sub(tried, 53, 86) == string.sub(rec, 3, 36) then
  -- The run that is under way stays, as the first. Where an earlier tick was the first, this one ends
  -- within its length.
  local left_ms = math.max(redis.call('PTTL', runs), 1)
  local last_ms, ends_ms = number(tried, 14, 26), number(tried, 40, 52)
  if ends_ms <= last_ms then ends_ms = last_ms + number(tried, 27, 39) end
  local times = string.format('%013.0f%s%013.0f', last_ms, string.sub(tried, 14, 39), ends_ms)
  redis.call('SET', runs, times .. string.sub(tried, 53, 86) .. '1', 'PX', left_ms)
else
  redis.call('UNLINK', runs)
end
if state == 'MK' then finish(lock, queue, waiters, wake, rec, string.sub(rec, 3, 36)) end
return {completed_ms, state == 'MH' and 1 or 0}
