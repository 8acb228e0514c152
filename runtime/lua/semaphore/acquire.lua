--- semaphore/acquire: take a permit, unless as many as the limit are out.
---
--- Safe to send twice: a request that holds a permit keeps it, and its TTL
--- starts anew; one that was released or cancelled is not granted again. The
--- limit is the caller's own: it is held against all permits that are out.
---
--- INCLUDE record
--- INCLUDE permits
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     request id by deadline
--- ARGV
---   1  id       string   the request
---   2  ttl_ms   integer  how long the permit lasts
---   3  limit    integer  how many permits may be out
--- RETURN
---   {1, 0}        granted; permits have no fencing token
---   {0, left_ms}  busy: the first permit ends in this long at the latest
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use by another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
--- COST  O(log permits)

local lock, holders = KEYS[1], KEYS[2]
local id, ttl_ms, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local token, ended = NO_TOKEN, NOBODY
local rec = redis.call('GET', lock)
if rec then
  if not is_record(rec) then return busy(lock, ttl_ms) end
  token, ended = string.sub(rec, 37, 52), string.sub(rec, 54, 87)
  if ended == id then return {2} end
  if string.find(rec, '^M[^F]') then return {3} end
end

local now = now_ms()
if not is_live(redis.call('ZSCORE', holders, id), now) then
  local out = redis.call('ZCARD', holders)
  if out >= limit then out = out - purge(holders, now) end
  if out >= limit then
    local first = redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')
    return {0, math.max(first[2] - now, 0)}
  end
end

-- The expiry before the member: a user who may not set one leaves nothing.
local expiry_ms = math.max(redis.call('PTTL', holders), ttl_ms)
local is_there = redis.call('PEXPIRE', holders, expiry_ms)
redis.call('SET', lock, 'SH' .. NOBODY .. token .. '0' .. ended, 'PX', expiry_ms)
redis.call('ZADD', holders, now + ttl_ms, id)
if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end
return {1, 0}
