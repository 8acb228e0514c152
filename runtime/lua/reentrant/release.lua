--- reentrant/release: end one hold of an owner, and with the last one hand the mutex over.
---
--- Safe to send twice: a repeat ends nothing. It gets the same answer as long as no other
--- hold was released since.
---
--- INCLUDE record token fields remains waiter queue tell holder holders rule_reentrant serve give_back
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
---   {1, left}  released, now or before; the owner has this many other holds
---   {0}        expired: the owner may have other holds, but not this one
---   {2}        taken: it had expired, and another owner has it now
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[2]}
local holder = ARGV[1]

local now = clock()
local is_over = give_back(keys, holder, now)
local now_ms = to_ms(now)
local left, is_owners = 0, owns(keys.holders, holder, now_ms)
if is_owners then left = redis.call('ZCOUNT', keys.holders, '(' .. string.sub(now, 1, 13), '+inf') end
if is_over then return {1, left} end
return {ends_at(keys.holders, now_ms) and not is_owners and 2 or 0}
