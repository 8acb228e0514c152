--- include/rule_semaphore: when a semaphore has room. Goes after include/holders.

local KIND = 'S'

local function has_room(holders, weight, limit)
  local more = tonumber(redis.call('ZSCORE', holders, '+')) or 0
  return redis.call('ZCOUNT', holders, 0, '+inf') - more + weight <= tonumber(limit)
end

-- Returns true if this holder fits. Each request brings its own limit.
local function fits(holders, holder, limit, now_ms)
  local weight = excess(holder) + 1
  if has_room(holders, weight, limit) then return true end
  return purge(holders, now_ms) > 0 and has_room(holders, weight, limit)
end

-- The lock's fencing token with this holder, and the holder's own: permits have none.
local function fence(_, _, token)
  return token, NO_TOKEN
end

-- How long until the first permit ends.
local function free_in(holders, now_ms)
  local first = redis.call('ZRANGE', holders, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  return first and math.max(first - now_ms, 0) or 0
end
