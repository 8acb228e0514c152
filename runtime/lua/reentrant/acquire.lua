--- reentrant/acquire: take a reentrant mutex, again if its owner has it, or wait for it.
---
--- Safe to send twice: a request that holds it is counted once, and its TTL
--- starts anew; one that was released or cancelled is not granted again. All
--- holds of an owner have the same fencing token, and each ends by itself. A
--- waiter sends it again to say that it lives. Nothing overtakes one who lives, but
--- an owner who comes again: whoever waits, waits for him.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
--- INCLUDE owner
--- INCLUDE serve
--- INCLUDE ask
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
---   {1, token}    granted
---   {0, left_ms}  busy: the owner's last hold ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
---   {5, ticket, until_ms, again_ms}  queued: known to live until, and to ask again in
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[5]}
local holder, ttl_ms, live_ms, ticket = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local refusal, token, flag, ended, nobody = look(keys, string.sub(holder, 1, 34), ttl_ms)
if refusal then return refusal end
local now = clock()
local now_ms = to_ms(now)
if owns(keys.holders, holder, now_ms) or nobody and fits(keys.holders, holder, nil, now_ms) then
  return let_in(keys, holder, ttl_ms, token, nobody and '0' or '1', ended, now)
elseif nobody and live_ms == 0 then
  return {0, free_in(keys.holders, now_ms)}
end
return line_up(keys, holder, '', ttl_ms, live_ms, ticket, token, flag, ended, now)
