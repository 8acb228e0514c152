--- reentrant/acquire: take a reentrant mutex, once more if its owner has it, or wait for it.
---
--- Safe to send twice: a request that holds it counts once, and its TTL starts anew. A
--- request that was released or cancelled is not granted again. An owner's holds share a
--- fencing token, and each ends by itself. A waiter sends it again to show that it is
--- alive. Nothing overtakes a live waiter, except an owner that re-enters: all waiters wait
--- for it.
---
--- INCLUDE record token fields remains waiter queue queued tell holder holders rule_reentrant serve recall recall_clients other_kind ask
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
---   {1, token}    granted
---   {0, left_ms}  busy: the owner's last hold ends in this long at the latest; 0: ask again at once
---   {10, left_ms}  busy: clients let leases of another kind linger, and were asked to release them
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key is not ours and had no expiry, and has the TTL now
---   {5, position, until_ms, again_ms}  queued: alive until then; ask again after again_ms
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[4]}
local holder, ttl_ms, waits = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local refusal, token, flag, ended, nobody = look(keys, string.sub(holder, 1, 34), ttl_ms, waits)
if refusal then return refusal end
local now = clock()
local now_ms = to_ms(now)
if owns(keys.holders, holder, now_ms) or nobody and fits(keys.holders, holder, nil, now_ms) then
  return let_in(keys, holder, ttl_ms, token, nobody and '0' or '1', ended, now)
elseif nobody and waits == '' then
  return {0, free_in(keys.holders, now_ms)}
end
return line_up(keys, holder, '', ttl_ms, waits, token, flag, ended, now)
