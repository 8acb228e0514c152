--- include/record: the record of a lock, its layout, and the next fencing token.
---
---   bytes  field
---    1      kind   M mutex, E reentrant mutex, S semaphore, R read-write lock
---    2      state  H held, O offered to a waiter, K kept (hold-at-least), F free
---    3-36   id     the request that holds it, or that it is offered to
---   37-52   token  the first fencing token of its block
---   53      flag   1 if somebody may wait in the queue, else 0
---   54-87   ended  the request that ended last: a late repeat of it is refused
---   88-     owner  a held mutex: `@` and the owner's name, if it was given one
---
--- A string of another shape was put there by somebody else, and is not ours
--- to write. Without the flag, the queue is empty.

local GRACE_MS, BLOCK = 60000, 64
local NOBODY = '----------------------------------'
local NO_TOKEN = '0000000000000000'

local function is_record(rec)
  return #rec >= 87 and string.find(rec, '^[MESR][HOKF]') ~= nil
end

-- Its token, flag, and the request that ended last.
local function fields(rec)
  return string.sub(rec, 37, 52), string.sub(rec, 53, 53), string.sub(rec, 54, 87)
end

-- Whether the name is held as another kind of lock. What is free may change its
-- kind, unless somebody waits for it: the queue says so.
local function is_other(rec, kind)
  return string.sub(rec, 1, 1) ~= kind and string.sub(rec, 2, 2) ~= 'F'
end

-- The server's clock in microseconds, as 16 digits.
local function clock()
  local time = redis.call('TIME')
  return time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
end

local function to_ms(now)
  return tonumber(string.sub(now, 1, 13))
end

-- The clock, or a block above the last token where the clock is not yet there.
local function next_token(last, now)
  local least = tonumber(last) + BLOCK
  if tonumber(now) >= least then return now end
  return string.format('%.0f', least)
end

-- Somebody has it, for so long; what has no expiry gets one.
local function busy(lock, ttl_ms)
  local left_ms = redis.call('PTTL', lock)
  if left_ms >= 0 then return {0, left_ms} end
  redis.call('PEXPIRE', lock, ttl_ms)
  return {4, tonumber(ttl_ms)}
end
