--- rw/release: end a reader's lease, or a writer's, and serve who waits.
---
--- Safe to send twice: a repeat ends nothing, and is told that the lease was
--- released as long as no other was released since. Others who read go on.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
--- INCLUDE readers
--- INCLUDE serve
--- INCLUDE give_back
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holder by deadline
---   3  queue    zset    request id by ticket
---   4  waiters  hash    request id to what it said last
--- ARGV
---   1  holder   string  the request, and how it holds
---   2  wake     string  where waiters are told, but for the client's id
--- RETURN
---   1  released, now or before
---   0  expired
---   2  taken: it had expired, and another writes since
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[2]}
local holder = ARGV[1]

local now = clock()
if give_back(keys, holder, now) then return 1 end
return is_written(keys.holders, to_ms(now)) and not owns(keys.holders, holder, to_ms(now)) and 2 or 0
