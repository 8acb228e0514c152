--- rw/acquire: read or write, or wait for it in the queue.
---
--- Safe to send twice: a request that has it keeps it, and its TTL starts anew. A request
--- that was released or cancelled is not granted again. A waiter sends it again to show
--- that it is alive. Nothing overtakes a live waiter, except an owner that holds the lock:
--- it may read once more, read while it writes, and write while it is the only reader, if
--- it does not wait for that.
---
--- INCLUDE record token fields remains waiter queue queued tell holder holders rule_rw serve recall recall_clients other_kind ask read_or_write
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  tokens   string   no token that was given is greater
--- ARGV
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the lease lasts
---   3  waits    string   how it waits, as include/waiter reads it; empty: it does not
---   4  wake     string   the channel for hints, without the client's id
--- RETURN
---   {1, token}    granted; 0 for a reader
---   {0, left_ms}  busy: the last lease ends in this long at the latest; 0: ask again at once
---   {8, left_ms}  busy: clients let leases linger, and were asked to release them; ask again soon
---   {10, left_ms}  the same, and the lease is of another kind
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key is not ours and had no expiry, and has the TTL now
---   {5, position, until_ms, again_ms}  queued: alive until then; ask again after again_ms
---   {6}           would deadlock: the owner holds it, and would wait for itself
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[4]}
local holder, ttl_ms, waits = ARGV[1], tonumber(ARGV[2]), ARGV[3]

return read_or_write(keys, holder, ttl_ms, waits)
