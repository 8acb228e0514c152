--- lock/force_release: take a lock, of whatever kind, from all who hold it.
---
--- Safe to send twice: the second finds it free, or held by the next. The fencing
--- token moves on, and whoever held it can ask whether it was forced: the first 64 are
--- told to. The first who waits is told to ask, and is served then.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holder by deadline
---   3  queue    zset    request id by ticket
---   4  waiters  hash    request id to what it said last
---   5  forced   zset    holder that it was taken from, by its deadline
--- ARGV
---   1  wake     string  where clients are told, but for their id
--- RETURN
---   {1, held, token}  taken from so many; all later tokens are greater than this one
---   {0}               nobody holds it
---   {3}               what has the name is no lock
--- COST  O(holders + log waiters)

local lock, holders, queue, waiters, forced = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wake = ARGV[1]

local rec = redis.call('GET', lock) or restored(lock, holders)
if not rec then return {0} end
if not is_record(rec) then return {3} end
if string.sub(rec, 2, 2) == 'F' then return {0} end
local now = clock()
local now_ms, left_ms, held = to_ms(now), redis.call('PTTL', lock), 1
-- All that can fail comes first: what is not ours is left alone, and all else with it.
local first, flag = first_waiter(queue, waiters, now_ms), flag_for(queue)
redis.call('ZCARD', forced)
-- The expiry before the entry: a user who may not set one leaves nothing.
local expiry_ms = math.max(left_ms, redis.call('PTTL', forced))
redis.call('PEXPIRE', forced, expiry_ms)
local taken = {string.sub(rec, 3, 36)}
if string.sub(rec, 1, 1) == 'M' then
  redis.call('ZADD', forced, now_ms + left_ms, taken[1])
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
redis.call('SET', lock, free, 'PX', GRACE_MS)
for _, holder in ipairs(taken) do publish(wake, holder, string.sub(holder, 1, 34) .. 'F') end
if first then publish(wake, first, first) end
return {1, held, tonumber(token)}
