--- rate/give_back: give back what a request took from a rate, whether it took it or not.
---
--- Safe to send twice, and before the take: a late copy of that is refused. What time has given
--- back already is not given back once more. What others took after it counts so much sooner, as if
--- the request had never come. So in no window more gets in. If more than MOST others did, it is
--- left to time.
---
--- INCLUDE record token rate
---
--- KEYS
---   1  rate       zset     see include/rate
--- ARGV
---   1  id         string   the request
---   2  weight_us  integer  for how long it used the rate up
--- RETURN
---   1  given back, all or what time has left of it
---   0  there was nothing to give back
--- COST  O(log requests of the last seconds) for each that has taken since, of which there are at
---       most MOST, and O(1) for each that is forgotten

local rate, id, weight_us = KEYS[1], ARGV[1], tonumber(ARGV[2])
local MOST = 64

local used_us, now_us, until_us, was_given_back = read_rate(rate, id)
local back_us, later = 0, {}
if until_us and not was_given_back then
  local after = string.format('(%.0f', until_us + KEPT_US)
  later = redis.call('ZRANGE', rate, after, '+inf', 'BYSCORE', 'LIMIT', 0, MOST + 1, 'WITHSCORES')
  back_us = #later <= 2 * MOST and math.max(0, math.min(weight_us, until_us - now_us)) or 0
end
if back_us > 0 then
  for nth = 1, #later, 2 do redis.call('ZADD', rate, later[nth + 1] - back_us, later[nth]) end
end
note_rate(rate, used_us - back_us, now_us, id, now_us + 0.5)
return back_us > 0 and 1 or 0
