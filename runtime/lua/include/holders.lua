--- include/holders: who holds a lock that several may hold.
---
--- A sorted set, holder by deadline in the server's milliseconds. A holder is the
--- request id and how it holds: `:3` a weight above 1, `e` a reentrant mutex, `r` as a
--- reader, `w` as a writer, then `@` and the owner's name if it was given one. A
--- deadline at or before now means absent. Some members are no holders, have negative
--- scores, and end with the set: `+`, by how much the weights are more than the number
--- of holders; `@` and a name, how many of them are that owner's; `!`, when the
--- writer's lease ends. Goes after include/record.

-- By how much it weighs more than 1.
local function excess(holder)
  return (tonumber(string.match(holder, '^:(%d+)', 35)) or 1) - 1
end

local function owner_of(holder)
  return string.match(holder, '@.*', 35)
end

local function is_writer(holder)
  return string.sub(holder, 35, 35) == 'w'
end

local function is_live(deadline_ms, now_ms)
  return deadline_ms and tonumber(deadline_ms) > now_ms
end

local function shift(holders, count, by)
  if by == 0 then return end
  if tonumber(redis.call('ZINCRBY', holders, -by, count)) == 0 then redis.call('ZREM', holders, count) end
end

-- A holder has come (1), or gone (-1).
local function note(holders, holder, by)
  shift(holders, '+', by * excess(holder))
  local owner = owner_of(holder)
  if owner then shift(holders, owner, by) end
end

-- Puts a holder in, or lets it last anew, and says when the last of all ends.
local function put_in(holders, holder, lasts_ms, now_ms)
  -- The expiry before the member: a user who may not set one leaves nothing.
  local expiry_ms = math.max(redis.call('PTTL', holders), lasts_ms)
  local is_there = redis.call('PEXPIRE', holders, expiry_ms)
  local is_new = redis.call('ZADD', holders, now_ms + lasts_ms, holder) == 1
  if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end
  if is_new then note(holders, holder, 1) end
  if is_writer(holder) then redis.call('ZADD', holders, -(now_ms + lasts_ms), '!') end
  return expiry_ms
end

local function take_out(holders, holder)
  if redis.call('ZREM', holders, holder) == 0 then return end
  note(holders, holder, -1)
  if is_writer(holder) then redis.call('ZREM', holders, '!') end
end

-- Forgets those who ended, at most 64 of them, and says how many.
local function purge(holders, now_ms)
  local ended = redis.call('ZRANGE', holders, 0, now_ms, 'BYSCORE', 'LIMIT', 0, 64)
  if #ended == 0 then return 0 end
  redis.call('ZREM', holders, unpack(ended))
  for _, holder in ipairs(ended) do note(holders, holder, -1) end
  return #ended
end

-- When the last of them ends. If nobody is left, those who ended are forgotten.
local function ends_at(holders, now_ms)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if is_live(last, now_ms) then return tonumber(last) end
  if last then redis.call('PEXPIRE', holders, 0) end
end

-- For how long a record stays whose last holder ends in so long. A token ahead of the
-- clock, which another server's clock gave, or this one's before it went back, stays
-- until the clock is there.
local function stays_ms(token, lasts_ms, now_ms)
  return math.max(lasts_ms, math.ceil((token + BLOCK) / 1000) - now_ms)
end

-- How long until the last of them ends.
local function rest_ms(holders, now_ms)
  return (ends_at(holders, now_ms) or now_ms) - now_ms
end

-- Whether the owner of this one has it already.
local function owns(holders, holder, now_ms)
  local owner = owner_of(holder)
  if not owner or not ends_at(holders, now_ms) then return false end
  purge(holders, now_ms)
  return redis.call('ZSCORE', holders, owner) ~= false
end

-- Lets a lease run for its whole TTL from now, unless it ended. The keys' expiry
-- only grows: another may last longer.
local function last_anew(lock, holders, holder, ttl_ms)
  local now_ms = to_ms(clock())
  if not is_live(redis.call('ZSCORE', holders, holder), now_ms) then return false end
  redis.call('ZADD', holders, now_ms + ttl_ms, holder)
  if is_writer(holder) then redis.call('ZADD', holders, -(now_ms + ttl_ms), '!') end
  redis.call('PEXPIRE', holders, ttl_ms, 'GT')
  redis.call('PEXPIRE', lock, ttl_ms, 'GT')
  return true
end
