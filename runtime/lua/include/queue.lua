--- include/queue: the waiters of a lock, in the order they came.
---
--- The queue is a sorted set of request ids by position: the server's time in
--- microseconds when the request first asked. A hash beside it has each waiter's last ask; see
--- include/waiter. A waiter that has not asked again in time is dead, and is removed. If it is
--- alive after all, it returns to its position when it asks. Goes after include/waiter.

local QUEUE_MS, LIVE_MOST_MS = 60000, 15000

-- How far a position may be ahead of the clock before the clock counts as set back.
local AHEAD_US = 100000

-- The record's flag is 0 if nobody waits. Without a record the queue may still be there.
local function nobody_waits(flag, queue)
  if flag then return flag == '0' end
  return redis.call('EXISTS', queue) == 0
end

-- The flag for a new record.
local function flag_for(queue)
  return redis.call('ZCARD', queue) > 0 and '1' or '0'
end

-- The position of a request that comes, or comes back, never behind the end. `told` is its position
-- before, or below 0: its age. If the last position is far ahead of the clock, the clock was set
-- back: a new request goes to the end, and passes nobody.
local function place(queue, told, now_us)
  local last = tonumber(redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]) or 0
  local latest = math.max(now_us, last + 1)
  if told > 0 then return math.min(told, latest) end
  return last > now_us + AHEAD_US and latest or now_us + told
end

-- Adds a waiter, or renews its heartbeat.
local function join(queue, waiters, id, waits, demand, now)
  local live_ms, secret, told = waits_in(waits)
  -- Reads both keys first: if one has another type, nothing is written.
  local position = redis.call('ZSCORE', queue, id)
  redis.call('HEXISTS', waiters, id)
  local until_ms = to_ms(now) + live_ms
  -- The expiry before the entry: a user without the right to PEXPIRE leaves nothing behind.
  local is_known, is_queued = redis.call('PEXPIRE', waiters, QUEUE_MS), redis.call('PEXPIRE', queue, QUEUE_MS)
  redis.call('HSET', waiters, id, until_ms .. secret .. demand)
  if is_known == 0 then redis.call('PEXPIRE', waiters, QUEUE_MS) end
  if not position then
    position = place(queue, told, tonumber(now))
    redis.call('ZADD', queue, position, id)
    if is_queued == 0 then redis.call('PEXPIRE', queue, QUEUE_MS) end
  end
  return tonumber(position), until_ms
end

local function leave(queue, waiters, id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', waiters, id)
end

-- The first live waiter, its last ask, and how long it is taken to be alive. Removes the
-- dead ones before it, at most 64: if it finds nobody and the queue is not empty, more dead ones
-- may follow. After the clock went back, a heartbeat far ahead proves nothing.
local function first_waiter(queue, waiters, now_ms)
  for _ = 1, 64 do
    local id = redis.call('ZRANGE', queue, 0, 0)[1]
    if not id then return nil end
    local said = redis.call('HGET', waiters, id)
    local left_ms = (said and tonumber(string.sub(said, 1, 13)) or 0) - now_ms
    if left_ms > 0 and left_ms <= LIVE_MOST_MS then return id, said, left_ms end
    leave(queue, waiters, id)
  end
end
