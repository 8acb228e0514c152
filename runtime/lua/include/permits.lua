--- include/permits: what all commands of a semaphore share.
---
--- The holders are a sorted set, request id by deadline in the server's
--- milliseconds. A deadline at or before now means absent. Goes after
--- include/record.

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function is_live(deadline_ms, now)
  return deadline_ms and tonumber(deadline_ms) > now
end

-- A name that is in use for something else is left alone.
local function is_other_lock(rec)
  return not is_record(rec) or string.find(rec, '^M[^F]') ~= nil
end

-- Forgets permits that ended, a few at a time, and says how many.
local function purge(holders, now)
  local ended = math.min(redis.call('ZCOUNT', holders, '-inf', now), 64)
  if ended > 0 then redis.call('ZREMRANGEBYRANK', holders, 0, ended - 1) end
  return ended
end

-- Takes a permit out, and remembers its id as the one that ended last.
local function finish(lock, holders, rec, id, now)
  redis.call('ZREM', holders, id)
  if rec and is_other_lock(rec) then return end
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  local state, expiry_ms = 'F', GRACE_MS
  if is_live(last, now) then state, expiry_ms = 'H', last - now end
  redis.call('PEXPIRE', holders, expiry_ms)
  local token = rec and string.sub(rec, 37, 52) or NO_TOKEN
  redis.call('SET', lock, 'S' .. state .. NOBODY .. token .. '0' .. id, 'PX', expiry_ms)
end
