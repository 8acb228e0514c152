--- lock/inspect: the holders and the waiters of a lock, of whatever kind, and the last success
--- of its work, or the runs since then.
---
--- Changes nothing. The record says who holds a mutex, the set says who holds any other
--- lock. Returns the first of each list, and how many there are.
---
--- INCLUDE record token fields remains holder
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  done     string   the mark; see include/done
---   6  runs     string   the runs since then; see include/runs
---   7  again    string   who asked for another run; see mutex/run_again
---   8  freed    string   who last took it by force; see include/force
--- ARGV
---   1  most     integer  how many holders, and how many waiters, to return
--- RETURN
---   {now, record, left_ms, held, holders, waiting, waiters, said, marks, since, done, runs, again, freed}
---   the server's microseconds; the record's first 500 bytes (empty if there is none);
---   holders and their deadlines, waiters and their positions, in turns; each waiter's last ask;
---   the clients that may keep a lease without using it, each with its mark; for each holder,
---   minus the server's milliseconds since when, or nothing; the last four keys, or nothing
--- COST  O(most + log holders + log waiters)

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most = tonumber(ARGV[1])

local now, rec = clock(), redis.call('GET', lock) or rebuilt(holders) or ''
local live = '(' .. string.sub(now, 1, 13)
local held = redis.call('ZCOUNT', holders, live, '+inf')
local named = redis.call('ZRANGE', holders, live, '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
local first, said = redis.call('ZRANGE', queue, 0, most - 1, 'WITHSCORES'), {}
for each = 1, #first, 2 do
  local ask = redis.call('HGET', waiters, first[each]) or ''
  -- The secret is for the scripts and its client alone.
  said[#said + 1] = string.sub(ask, 1, 13) .. string.sub(ask, 36)
end
local left_ms, waiting = redis.call('PTTL', lock), redis.call('ZCARD', queue)
local lasting = string.format('(%.0f', -(MARKS + to_ms(now)))
local since = {}
for each = 1, #named, 2 do since[#since + 1] = redis.call('ZSCORE', holders, SINCE .. string.sub(named[each], 1, 34)) or '' end
local marks = redis.call('ZRANGE', holders, '-inf', lasting, 'BYSCORE', 'LIMIT', 0, most)
local done = redis.call('GET', KEYS[5]) or ''
-- These decide nothing, whatever they are.
local function text(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value or ''
end
local runs, again, freed = text(KEYS[6]), text(KEYS[7]), text(KEYS[8])
rec = string.sub(rec, 1, 500)
return {now, rec, left_ms, held, named, waiting, first, said, marks, since, done, runs, again, freed}
