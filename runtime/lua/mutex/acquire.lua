--- mutex/acquire: take the mutex, unless another request holds it.
---
--- Safe to send twice: the same request gets the same token, and its TTL
--- starts anew. A request that was released or cancelled is never granted
--- again, so that a copy of the command that comes late leaves nothing held.
---
--- INCLUDE record
---
--- KEYS
---   1  lock    string   the record
--- ARGV
---   1  id      string   the request
---   2  ttl_ms  integer  how long the lease lasts
--- RETURN
---   {1, token}    granted
---   {0, left_ms}  busy: held by another for this much longer
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use by another kind of lock
---   {4, ttl_ms}   busy, without an expiry until now: it was given the TTL
--- COST  O(1)

local lock = KEYS[1]
local id, ttl_ms = ARGV[1], ARGV[2]

local last, ended = NO_TOKEN, NOBODY
local rec = redis.call('GET', lock)
if rec then
  if not is_record(rec) then return busy(lock, ttl_ms) end
  last, ended = string.sub(rec, 37, 52), string.sub(rec, 54, 87)
  if ended == id then return {2} end
  if string.sub(rec, 2, 2) ~= 'F' then
    if string.sub(rec, 1, 1) ~= 'M' then return {3} end
    if string.sub(rec, 2, 36) ~= 'H' .. id then return busy(lock, ttl_ms) end
    redis.call('PEXPIRE', lock, ttl_ms)
    return {1, tonumber(last)}
  end
end
local token = next_token(last)
redis.call('SET', lock, 'MH' .. id .. token .. '0' .. ended, 'PX', ttl_ms)
return {1, tonumber(token)}
