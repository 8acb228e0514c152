--- include/take_rate: takes from a rate, in two steps: together with others, all or none. Goes
--- after include/token.
---
--- A rate is kept by GCRA, the generic cell rate algorithm, as a sorted set:
---   `used`      until when the rate is used up: the theoretical arrival time
---   `seen`      the server's time at the last take
---   request id  until when what it took counts, and KEPT_US; and half a microsecond, if it was
---               given back. Its client removes it sooner, once no copy of it can arrive
--- The first two are negated, so that no range of times finds them.

local KEPT_US = 10000000

-- Forgets requests of which no copy can arrive any more.
local function forget(rate, ids)
  local settled = {}
  for at = 1, #ids, 34 do settled[#settled + 1] = string.sub(ids, at, at + 33) end
  if settled[1] then redis.call('ZREM', rate, unpack(settled)) end
end

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

-- Returns what `take_rate` needs, if there is enough, or if this request has taken it already.
-- Otherwise returns nothing, and after how long there is; that never comes for one that gave it back.
local function free_rate(rate, id, weight_us, burst_us, settled)
  forget(rate, settled)
  local used_us, now_us, until_us, was_given_back = read_rate(rate, id)
  if until_us and was_given_back then return nil end
  local short_us = used_us + weight_us - burst_us - now_us
  if not until_us and short_us > 0 then return nil, short_us end
  return {
    rate = rate, id = id, used_us = used_us, now_us = now_us, weight_us = weight_us, until_us = until_us,
  }
end

-- Takes it, and returns how long the rate is used up from now. A repeat changes nothing, but writes:
-- `WAIT` asks replicas for what its own connection has written.
local function take_rate(free)
  local rate, used_us, now_us, until_us = free.rate, free.used_us, free.now_us, free.until_us
  if until_us then
    keep_rate(rate, used_us, now_us, until_us)
  else
    used_us = used_us + free.weight_us
    note_rate(rate, used_us, now_us, free.id, used_us)
  end
  return used_us - now_us
end
