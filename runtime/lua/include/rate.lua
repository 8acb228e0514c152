--- include/rate: how a rate is stored. Goes after include/token.
---
--- A rate is kept by GCRA, the generic cell rate algorithm, as a sorted set:
---   `used`      until when the rate is used up: the theoretical arrival time
---   `seen`      the server's time at the last take
---   request id  until when what it took counts, and KEPT_US; and half a microsecond, if it was
---               given back. Its client removes it sooner, once no copy of it can arrive
--- The first two are negated, so that no range of times finds them.

local KEPT_US = 10000000

-- Until when the rate is used up, and the time; and of this request, if it is known, until when what
-- it took counts, and whether that was given back. If the clock went back, no time has passed
-- meanwhile, and earlier requests are forgotten.
local function read_rate(rate, id)
  local _, now_us = clock()
  local used_us = -tonumber(redis.call('ZSCORE', rate, 'used') or 0)
  local seen_us = -tonumber(redis.call('ZSCORE', rate, 'seen') or 0)
  if now_us < seen_us then
    used_us = used_us - seen_us + now_us
    redis.call('ZREMRANGEBYSCORE', rate, 0, '+inf')
    redis.call('ZADD', rate, -used_us, 'used', -now_us, 'seen')
  end
  local score = tonumber(redis.call('ZSCORE', rate, id) or 0)
  local until_us = score > now_us and score - KEPT_US or nil
  return math.max(used_us, now_us), now_us, until_us, score % 1 ~= 0
end

-- Keeps the rate for as long as it is used up, or this request counts.
local function keep_rate(rate, used_us, now_us, until_us)
  local keep_ms = math.ceil((math.max(used_us, until_us) - now_us + KEPT_US) / 1000)
  return redis.call('PEXPIRE', rate, keep_ms)
end

-- Notes until when the rate is used up, and until when this request counts. The expiry before the
-- entry: a user without the right to PEXPIRE leaves nothing behind.
local function note_rate(rate, used_us, now_us, id, until_us)
  local is_there = keep_rate(rate, used_us, now_us, until_us)
  redis.call('ZREMRANGEBYSCORE', rate, 0, now_us)
  redis.call('ZADD', rate, -used_us, 'used', -now_us, 'seen', until_us + KEPT_US, id)
  if is_there == 0 then keep_rate(rate, used_us, now_us, until_us) end
end
