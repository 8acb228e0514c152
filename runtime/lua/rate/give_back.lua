--- rate/give_back: give back what a request took from a rate, whether it took it or not.
---
--- Safe to send twice, and before the take: a late copy of that takes nothing. What time has given
--- back already is not given back once more. So in no window more gets in than if the request had
--- never come.
---
--- INCLUDE record token take_rate
---
--- KEYS
---   1  rate       zset     see include/take_rate
--- ARGV
---   1  id         string   the request
---   2  weight_us  integer  for how long it used the rate up
--- RETURN
---   1  given back, all or what time has left of it
---   0  there was nothing to give back
--- COST  O(log requests of the last seconds), and O(1) for each that is forgotten

local rate, id, weight_us = KEYS[1], ARGV[1], tonumber(ARGV[2])

local used_us, now_us, score = read_rate(rate, id)
-- How much was given back of late, and until when something counts that was taken before that. Of
-- what was taken before, so much less counts.
local spent_us = -tonumber(redis.call('ZSCORE', rate, 'back') or 0)
local spent_until_us = -tonumber(redis.call('ZSCORE', rate, 'back_until') or 0)
if spent_until_us <= now_us then spent_us, spent_until_us = 0, 0 end
local left_us = score and score - KEPT_US - now_us - spent_us or 0
local back_us = math.max(0, math.min(weight_us, left_us))
if back_us > 0 then
  local until_us = math.max(spent_until_us, used_us)
  redis.call('ZADD', rate, -spent_us - back_us, 'back', -until_us, 'back_until')
end
note_rate(rate, used_us - back_us, now_us, id, now_us)
return back_us > 0 and 1 or 0
