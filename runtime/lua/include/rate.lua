--- include/rate: how a rate is stored. Goes after include/token.
---
--- A rate is kept by GCRA, the generic cell rate algorithm. Each request uses a span of time, as long
--- as its weight. Spans do not overlap, and a request may begin when its span ends within the burst.
--- A sorted set has
---   `used`      when the last span ends: the theoretical arrival time
---   `seen`      the server's time at the last take
---   `begins`    when the last request may begin; missing if nobody waits and no span is free
---   a number    when a free span begins that was given back; its score is when it ends
---   request id  when its span ends, and KEPT_US; and half a microsecond, if it was given back.
---               Its client removes it sooner, once no copy of it can arrive
--- All scores but the last are negated, so that no range of times finds them.

local KEPT_US = 10000000
local NONE = {}

-- Reads the free spans of a rate in their order.
local function read_free(rate)
  local all = redis.call('ZRANGE', rate.key, '-inf', '(0', 'BYSCORE', 'WITHSCORES')
  rate.free, rate.stored = {}, {'begins'}
  for nth = #all - 1, 1, -2 do
    local name, until_us = all[nth], -tonumber(all[nth + 1])
    if tonumber(name) then
      rate.stored[#rate.stored + 1] = name
      if until_us > rate.now_us then rate.free[#rate.free + 1] = {tonumber(name), until_us} end
    end
  end
end

-- Reads a rate for a request: also when its span ends, if it is known, and whether it was given back.
-- If the clock went back, no time has passed meanwhile, and earlier requests and free spans are
-- forgotten.
local function read_rate(key, id, weight_us)
  local _, now_us = clock()
  local used, seen, begins, score = unpack(redis.call('ZMSCORE', key, 'used', 'seen', 'begins', id))
  local used_us, seen_us, begins_us = -tonumber(used or 0), -tonumber(seen or 0), -tonumber(begins or 0)
  local is_back, known_us = now_us < seen_us, tonumber(score or 0)
  if is_back then used_us, begins_us, known_us = used_us - seen_us + now_us, begins_us - seen_us + now_us, 0 end
  local is_known = known_us > now_us
  local rate = {
    key = key, id = id, weight_us = weight_us, now_us = now_us, used_us = math.max(used_us, now_us),
    begins_us = begins_us, free = NONE, stored = NONE, until_us = is_known and known_us - KEPT_US,
    was_given_back = is_known and known_us % 1 ~= 0, from_us = 0, at_us = 0,
  }
  if begins then read_free(rate) end
  if is_back then
    redis.call('ZREMRANGEBYSCORE', key, 0, '+inf')
    redis.call('ZADD', key, -used_us, 'used', -now_us, 'seen')
    if begins then
      redis.call('ZREM', key, unpack(rate.stored))
      redis.call('ZADD', key, -math.max(begins_us, 1), 'begins')
    end
    rate.free = NONE
  end
  return rate
end
