--- lock/inspect: say who holds a lock, of whatever kind, and who waits for it.
---
--- Changes nothing. Says of a mutex what the record says, of all others who holds
--- them; the first of each, and how many there are.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holder by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV
---   1  most     integer  how many holders, and how many waiters, to name
--- RETURN
---   {now, record, left_ms, held, holders, waiting, waiters, said}
---   the server's microseconds, and how the record begins (nothing if there is
---   none); holder and deadline, waiter and ticket, in turns; what each waiter said
--- COST  O(most + log holders + log waiters)

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most = tonumber(ARGV[1])

local now, rec = clock(), redis.call('GET', lock) or rebuilt(holders) or ''
local live = '(' .. string.sub(now, 1, 13)
local held = redis.call('ZCOUNT', holders, live, '+inf')
local named = redis.call('ZRANGE', holders, live, '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
local first, said = redis.call('ZRANGE', queue, 0, most - 1, 'WITHSCORES'), {}
for each = 1, #first, 2 do said[#said + 1] = redis.call('HGET', waiters, first[each]) or '' end
local left_ms, waiting = redis.call('PTTL', lock), redis.call('ZCARD', queue)
return {now, string.sub(rec, 1, 300), left_ms, held, named, waiting, first, said}
