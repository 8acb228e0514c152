--- include/rate: how a rate is stored. Goes after include/token.
---
--- A rate is kept by GCRA, the generic cell rate algorithm. Each request uses a span of time, as long
--- as its weight. Spans do not overlap, and a request may begin when its span ends within the burst.
--- A sorted set has
---   `used`      when the last span ends: the theoretical arrival time
---   `seen`      the server's time at the last take
---   `begins`    when the last request may begin
---   a number    when a free span begins that was given back; its score is when it ends
---   request id  when its span ends, and KEPT_US; and half a microsecond, if it was given back.
---               Its client removes it sooner, once no copy of it can arrive
--- All scores but the last are negated, so that no range of times finds them.

local KEPT_US = 10000000

-- Reads a rate. If the clock went back, no time has passed meanwhile, and earlier requests and free
-- spans are forgotten.
local function read_rate(key)
  local _, now_us = clock()
  local rate = {key = key, now_us = now_us, used_us = 0, begins_us = 0, free = {}, stored = {}}
  local seen_us, first, all = 0, 1, redis.call('ZRANGE', key, '-inf', '(0', 'BYSCORE', 'WITHSCORES')
  for nth = #all - 1, 1, -2 do
    local name, time_us = all[nth], -tonumber(all[nth + 1])
    if name == 'used' then
      rate.used_us = time_us
    elseif name == 'seen' then
      seen_us = time_us
    elseif name == 'begins' then
      rate.begins_us = time_us
    else
      rate.stored[#rate.stored + 1] = name
      rate.free[#rate.free + 1] = {tonumber(name), time_us}
    end
  end
  if now_us < seen_us then
    rate.used_us, rate.begins_us = rate.used_us - seen_us + now_us, rate.begins_us - seen_us + now_us
    rate.free = {}
    redis.call('ZREMRANGEBYSCORE', key, 0, '+inf')
    redis.call('ZADD', key, -rate.used_us, 'used', -now_us, 'seen', -rate.begins_us, 'begins')
    if rate.stored[1] then redis.call('ZREM', key, unpack(rate.stored)) end
  end
  while rate.free[first] and rate.free[first][2] <= now_us do first = first + 1 end
  rate.free = {unpack(rate.free, first)}
  rate.used_us = math.max(rate.used_us, now_us)
  return rate
end

-- When the span of a request ends, if it is known, and whether it was given back.
local function read_span(rate, id)
  local score = tonumber(redis.call('ZSCORE', rate.key, id) or 0)
  return score > rate.now_us and score - KEPT_US or nil, score % 1 ~= 0
end
