--- rw/cancel: take an acquisition back, whether it was granted, waits, or neither.
---
--- Safe to send twice, and before the acquire it takes back: the record
--- remembers the request, and an acquire that comes late is refused. Serves who
--- waits: what was in their way may be gone.
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
---   1  it had been granted, and is released
---   0  it held nothing
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[2]}
local holder = ARGV[1]

return take_back(keys, holder, clock())
