--- include/write_rate: writes a rate. Goes after include/rate.

-- If there are more free spans, the earliest are left to time.
local MOST_FREE = 32

-- Keeps the rate for as long as it is used up, or this request counts.
local function keep_rate(rate, until_us)
  local keep_ms = math.ceil((math.max(rate.used_us, until_us) - rate.now_us + KEPT_US) / 1000)
  return redis.call('PEXPIRE', rate.key, keep_ms)
end

-- Writes a rate, and until when its request counts. The expiry before the entry: a user without the
-- right to PEXPIRE leaves nothing behind.
local function write_rate(rate, until_us)
  local is_there = keep_rate(rate, until_us)
  redis.call('ZREMRANGEBYSCORE', rate.key, 0, rate.now_us)
  if rate.stored[1] then redis.call('ZREM', rate.key, unpack(rate.stored)) end
  redis.call('ZADD', rate.key, -rate.used_us, 'used', -rate.now_us, 'seen', until_us + KEPT_US, rate.id)
  if rate.begins_us > rate.now_us or rate.free[1] then
    local entries = {-math.max(rate.begins_us, rate.now_us), 'begins'}
    for nth = math.max(1, #rate.free - MOST_FREE + 1), #rate.free do
      entries[#entries + 1] = -rate.free[nth][2]
      entries[#entries + 1] = string.format('%.0f', rate.free[nth][1])
    end
    redis.call('ZADD', rate.key, unpack(entries))
  end
  if is_there == 0 then keep_rate(rate, until_us) end
end
