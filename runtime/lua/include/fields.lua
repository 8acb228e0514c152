--- include/fields: how the record of a lock is read. Goes after include/record.

local function is_record(rec)
  return #rec >= 87 and string.find(rec, '^[MESR][HOKF]') ~= nil
end

-- Its token, its flag, and the request that ended last.
local function fields(rec)
  return string.sub(rec, 37, 52), string.sub(rec, 53, 53), string.sub(rec, 54, 87)
end

-- Returns true if a request holds the mutex, or has an offer of it.
local function holds(rec, id)
  return string.find(rec, '^M[HO]') ~= nil and string.sub(rec, 3, 36) == id
end

-- The holder's `@` and name, then its line's end and note, or nothing.
local function owner_in(rec)
  return (string.gsub(string.sub(rec, 88), '^[~!]', ''))
end

-- Returns true if the name is held as another kind of lock. A free record may change its kind;
-- only waiters prevent that, and the queue knows them.
local function is_other(rec, kind)
  return string.sub(rec, 1, 1) ~= kind and string.sub(rec, 2, 2) ~= 'F'
end

local function to_ms(now)
  return tonumber(string.sub(now, 1, 13))
end

-- The answer to a request that is not queued: how long the record stays, after `code` or 0.
-- A record without an expiry gets one.
local function busy(lock, ttl_ms, code)
  local left_ms = redis.call('PTTL', lock)
  if left_ms >= 0 then return {code or 0, left_ms} end
  redis.call('PEXPIRE', lock, ttl_ms)
  return {4, tonumber(ttl_ms)}
end
