--- include/permits: the permits of a semaphore that are out.
---
--- A sorted set, permit by deadline in the server's milliseconds. A permit is
--- the request id, with its weight behind it if that is more than 1. A deadline
--- at or before now means absent. Where weights differ, the member `+` has, as a
--- negative score, by how much they are more than the number of permits: in here
--- it ends with them. Goes after include/record.

local function permit(id, weight)
  return tonumber(weight) > 1 and id .. ':' .. weight or id
end

-- By how much it weighs more than 1.
local function excess(member)
  return (tonumber(string.sub(member, 36)) or 1) - 1
end

local function is_live(deadline_ms, now_ms)
  return deadline_ms and tonumber(deadline_ms) > now_ms
end

-- More or less of what weighs more than 1.
local function shift(holders, by)
  if by == 0 then return end
  if tonumber(redis.call('ZINCRBY', holders, -by, '+')) == 0 then redis.call('ZREM', holders, '+') end
end

-- Puts a permit in, or lets it last anew, and says when the last of all ends.
local function put_in(holders, member, lasts_ms, now_ms)
  -- The expiry before the member: a user who may not set one leaves nothing.
  local expiry_ms = math.max(redis.call('PTTL', holders), lasts_ms)
  local is_there = redis.call('PEXPIRE', holders, expiry_ms)
  if redis.call('ZADD', holders, now_ms + lasts_ms, member) == 1 then shift(holders, excess(member)) end
  if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end
  return expiry_ms
end

local function take_out(holders, member)
  if redis.call('ZREM', holders, member) == 1 then shift(holders, -excess(member)) end
end

-- Forgets permits that ended, at most 64 of them, and says how many.
local function purge(holders, now_ms)
  local ended = redis.call('ZRANGE', holders, 0, now_ms, 'BYSCORE', 'LIMIT', 0, 64)
  if #ended == 0 then return 0 end
  local more = 0
  for _, member in ipairs(ended) do more = more + excess(member) end
  redis.call('ZREM', holders, unpack(ended))
  shift(holders, -more)
  return #ended
end

local function has_room(holders, weight, limit)
  local more = tonumber(redis.call('ZSCORE', holders, '+'))
  local out = redis.call('ZCARD', holders) + (more and -more - 1 or 0)
  return out + weight <= tonumber(limit)
end

-- Whether so much more may be out, by the limit of whoever asks for it.
local function fits(holders, weight, limit, now_ms)
  if has_room(holders, weight, limit) then return true end
  return purge(holders, now_ms) > 0 and has_room(holders, weight, limit)
end

-- How long until the first permit ends.
local function first_ends_in(holders, now_ms)
  local first = redis.call('ZRANGE', holders, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  return first and math.max(first - now_ms, 0) or 0
end
