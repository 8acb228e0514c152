--- rate/give_back: give back what a request took from a rate, whether it took it or not.
---
--- Safe to send twice, and before the take: a late copy of that is refused. What time has given
--- back already is not given back once more. The rest is free for the next request that fits in. Those
--- that have taken for a later time keep theirs, so in no window more gets in.
---
--- INCLUDE record token rate write_rate give_back_rate
---
--- KEYS
---   1  rate       zset     see include/rate
--- ARGV
---   1  id         string   the request
---   2  weight_us  integer  for how long it used the rate up
--- RETURN
---   1  given back, all or what time has left of it
---   0  there was nothing to give back
--- COST  O(log requests of the last seconds), and O(1) for each that is forgotten and for each free
---       span

local key, id, weight_us = KEYS[1], ARGV[1], tonumber(ARGV[2])

return give_back_rate(read_rate(key, id, weight_us)) > 0 and 1 or 0
