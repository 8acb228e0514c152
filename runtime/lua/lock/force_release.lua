--- lock/force_release: take a lock, of whatever kind, from all its holders.
---
--- Safe to send twice: the second finds it free, or held by the next request. The fencing
--- token moves on. A former holder can ask whether the lock was forced, and the first 64 are
--- told to. The first waiter is told to ask, and is served then.
---
--- INCLUDE record token fields remains waiter queue tell
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  waiters  hash    each waiter's last ask
---   5  forced   zset    the holders it was taken from, by deadline
---   6  tokens   string  no token that was given is greater
--- ARGV
---   1  wake     string  the channel for hints, without the client's id
--- RETURN
---   {1, held, token}  taken from this many; all later tokens are greater than this one
---   {0}               nobody holds it
---   {3}               the key holds something that is no lock
--- COST  O(holders + log waiters)

local lock, holders, queue, waiters, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wake = ARGV[1]

local rec = redis.call('GET', lock) or restored(lock, holders)
if not rec then return {0} end
if not is_record(rec) then return {3} end
if string.sub(rec, 2, 2) == 'F' then return {0} end
local now = clock()
local now_ms, left_ms, held = to_ms(now), redis.call('PTTL', lock), 1
-- All that can fail comes first: if a key is not ours, nothing is written.
local first, flag = first_waiter(queue, waiters, now_ms), flag_for(queue)
redis.call('ZCARD', forced)
-- The expiry before the entry: a user without the right to PEXPIRE leaves nothing behind.
local expiry_ms = math.max(left_ms, redis.call('PTTL', forced))
redis.call('PEXPIRE', forced, expiry_ms)
local taken = {string.sub(rec, 3, 36)}
if string.sub(rec, 1, 1) == 'M' then
  redis.call('ZADD', forced, 'GT', now_ms + left_ms, taken[1])
  redis.call('PEXPIRE', forced, expiry_ms)
else
  taken = redis.call('ZRANGE', holders, '(' .. now_ms, '+inf', 'BYSCORE', 'LIMIT', 0, 64)
  held = redis.call('ZCOUNT', holders, '(' .. now_ms, '+inf')
  redis.call('ZUNIONSTORE', forced, 2, forced, holders, 'AGGREGATE', 'MAX')
  redis.call('PEXPIRE', forced, expiry_ms)
  redis.call('UNLINK', holders)
end
redis.call('ZREMRANGEBYSCORE', forced, '-inf', now_ms)
local last = redis.call('ZRANGE', forced, -1, -1, 'WITHSCORES')[2]
if last then redis.call('PEXPIRE', forced, last - now_ms) end
local last_token, _, ended = fields(rec)
local token = next_token(last_token)
local free = string.sub(rec, 1, 1) .. 'F' .. NOBODY .. token .. flag .. ended
redis.call('SET', lock, free, 'PX', free_ms(token))
for _, holder in ipairs(taken) do publish(wake, holder, string.sub(holder, 1, 34) .. 'F') end
if first then publish(wake, first, first) end
return {1, held, tonumber(token)}
