--- rw/release: end a reader's or a writer's lease, and serve the waiters.
---
--- Safe to send twice: a repeat ends nothing. It gets the same answer as long as no other
--- lease was released since. Other readers go on.
---
--- INCLUDE record token fields remains waiter queue tell holder holders rule_rw serve give_back
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
---   1  released, now or before
---   0  expired
---   2  taken: it had expired, and another owner writes now
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[2]}
local holder = ARGV[1]

local now = clock()
if give_back(keys, holder, now) then return 1 end
return is_written(keys.holders, to_ms(now)) and not owns(keys.holders, holder, to_ms(now)) and 2 or 0
