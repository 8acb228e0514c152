--- rw/acquire: read or write, or wait for it in the queue.
---
--- Safe to send twice: a request that has it keeps it, and its TTL starts anew;
--- one that was released or cancelled is not granted again. A waiter sends it again
--- to say that it lives. Nothing overtakes one who lives, but an owner who has it
--- already: he may read again, or read while he writes; and write while he alone
--- reads, if he does not wait for it.
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
--- INCLUDE ask
--- INCLUDE read_or_write
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holder by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV
---   1  holder   string   the request, and how it holds
---   2  ttl_ms   integer  how long the lease lasts
---   3  live_ms  integer  for how long it is known to live if it waits; 0: it does not
---   4  ticket   integer  its place, if it was told one; or minus its age in microseconds
---   5  wake     string   where waiters are told, but for the client's id
--- RETURN
---   {1, token}    granted; 0 for a reader
---   {0, left_ms}  busy: the last who has it ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
---   {5, ticket, until_ms, again_ms}  queued: known to live until, and to ask again in
---   {6}           would deadlock: its owner has it, and would wait for himself
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[5]}
local holder, ttl_ms, live_ms, ticket = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

return read_or_write(keys, holder, ttl_ms, live_ms, ticket)
