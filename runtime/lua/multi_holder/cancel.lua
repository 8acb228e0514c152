--- multi_holder/cancel: take an acquisition back, whether it was granted, waits, or neither.
---
--- For semaphores, reentrant mutexes and read-write locks, each with its own rule. Safe to
--- send twice, and before the acquire that it cancels: the record remembers the request, and
--- a late acquire is refused. Serves the queue: the request may have been in the way.
---
--- INCLUDE record token fields remains waiter queue tell holder holders rule_* serve give_back
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  waiters  hash    each waiter's last ask
---   5  tokens   string  no token that was given is greater
--- ARGV
---   1  holder   string  the request and how it holds
---   2  wake     string  the channel for hints, without the client's id
--- RETURN
---   1  it was granted, and is released now
---   0  it held nothing
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[2]}
local holder = ARGV[1]

return take_back(keys, holder, clock())
