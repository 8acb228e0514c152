--- rw/vote: read or write, on a member of a quorum.
---
--- A quorum has no queue: each server would order the waiters differently. Instead, a writer
--- that is refused and comes back leaves a mark, and new readers are refused as long as it
--- lasts: or they would keep the writer out for ever. Otherwise as rw/acquire.
---
--- INCLUDE record token fields remains waiter queue queued tell holder holders rule_rw serve recall recall_clients other_kind ask read_or_write
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     holders by deadline
---   3  queue     zset     request ids by position
---   4  waiters   hash     each waiter's last ask
---   5  intent    string   the client of a refused writer
---   6  tokens    string   no token that was given is greater
--- ARGV
---   1  holder    string   the request and how it holds
---   2  ttl_ms    integer  how long the lease lasts
---   3  again_ms  integer  within how long a refused writer comes back; 0: never
--- RETURN
---   {1, token}    granted; 0 for a reader
---   {0, left_ms}  busy: the last lease ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: another kind of lock holds the name, or waits for it
---   {4, ttl_ms}   busy: the key is not ours and had no expiry, and has the TTL now
---   {6}           would deadlock: the owner holds it, and would wait for itself
---   {10, left_ms}  wrong kind: clients let leases of it linger, and were asked to release them
--- COST  O(log holders)

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ''}
local intent, holder, ttl_ms, again_ms = KEYS[5], ARGV[1], tonumber(ARGV[2]), ARGV[3]

local client, marked = string.sub(holder, 1, 22), redis.call('GET', intent)
if marked and not is_writer(holder) and not may_reenter(keys, holder) then
  return {0, redis.call('PTTL', intent)}
end
local answer = read_or_write(keys, holder, ttl_ms, '')
if answer[1] == 0 and is_writer(holder) and again_ms ~= '0' then
  redis.call('SET', intent, client, 'PX', again_ms)
elseif answer[1] == 1 and marked == client and is_writer(holder) then
  redis.call('UNLINK', intent)
end
return answer
