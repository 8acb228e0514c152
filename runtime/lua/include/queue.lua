--- include/queue: who waits for a lock, in the order they came.
---
--- The queue is a sorted set, request id by ticket: the server's time in
--- microseconds when the request first asked. A hash beside it has what each
--- waiter said last: until when it is known to live (13 digits, milliseconds),
--- the letter of its kind, a limit, and how it holds. One that has not asked again by
--- then is dead, and passed over; if it lives after all, its ticket brings it
--- back to its place. Goes after include/record.

local QUEUE_MS, LIVE_MOST_MS, SPREAD_MS = 60000, 15000, 100

-- After an expiry the record is gone, with its flag, and the queue is not.
local function nobody_waits(flag, queue)
  if flag then return flag == '0' end
  return redis.call('EXISTS', queue) == 0
end

-- The flag of a record that is written anew.
local function flag_for(queue)
  return redis.call('ZCARD', queue) > 0 and '1' or '0'
end

-- Joins, or says again that it lives. A ticket of 0 is a new one, and a negative
-- one is for a request that first asked so many microseconds ago, and was told none.
local function join(queue, waiters, id, live_ms, ticket, demand, now)
  -- Both are looked at first: what is not ours is left alone.
  local place = redis.call('ZSCORE', queue, id)
  redis.call('HEXISTS', waiters, id)
  local until_ms = to_ms(now) + live_ms
  -- The expiry before the entry: a user who may not set one leaves nothing.
  local is_known, is_queued = redis.call('PEXPIRE', waiters, QUEUE_MS), redis.call('PEXPIRE', queue, QUEUE_MS)
  redis.call('HSET', waiters, id, until_ms .. demand)
  if is_known == 0 then redis.call('PEXPIRE', waiters, QUEUE_MS) end
  if not place then
    place = tonumber(ticket) > 0 and ticket or tonumber(now) + ticket
    redis.call('ZADD', queue, place, id)
    if is_queued == 0 then redis.call('PEXPIRE', queue, QUEUE_MS) end
  end
  return tonumber(place), until_ms
end

local function leave(queue, waiters, id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', waiters, id)
end

-- The first who lives, what it said last, and for how long it is known to live.
-- Forgets the dead before it, at most 64 of them: if it finds nobody and the
-- queue is not empty, there are more. A clock that went back proves nobody alive.
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

-- How many other clients have a waiter before this one: nothing where its own client has,
-- or behind 64 of them.
local function clients_before(queue, id)
  local clients, seen = 0, {[string.sub(id, 1, 22)] = true}
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, 63)) do
    local client = string.sub(other, 1, 22)
    if other == id then return clients end
    if not seen[client] then
      seen[client], clients = true, clients + 1
    elseif client == string.sub(id, 1, 22) then
      return nil
    end
  end
end

-- The first asks again when the lock may be free, and the first of each other client a
-- little later, one after another: those before it may be dead. All others ask to say
-- that they live.
local function queued(queue, id, place, until_ms, live_ms, left_ms)
  local again_ms = math.floor(live_ms / 3)
  local before = left_ms < again_ms and clients_before(queue, id)
  if before then again_ms = math.min(again_ms, left_ms + SPREAD_MS * before) end
  return {5, place, until_ms, again_ms}
end
