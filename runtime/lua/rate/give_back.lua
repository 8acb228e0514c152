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

local used_us, now_us, back_us, until_us = read_rate(rate, id)
local free_us = math.max(0, math.min(weight_us, (until_us or 0) - now_us))
-- Of what was taken after it, so much less counts from now on.
if free_us > 0 and until_us < used_us then back_us = back_us + free_us end
note_rate(rate, used_us - free_us, now_us, back_us, id, now_us)
return free_us > 0 and 1 or 0
