--- rate/take: take from a rate, if there is enough. Never queued.
---
--- Safe to send twice: a request takes once. Also after rate/give_back, so a late copy of it takes
--- nothing.
---
--- INCLUDE record token rate take_rate for_each
---
--- KEYS, for each request
---   1  rate       zset     see include/rate
--- ARGV, for each request
---   1  id         string   the request
---   2  weight_us  integer  for how long it uses the rate up
---   3  burst_us   integer  for how long the rate may be used up at most
---   4  settled    string   earlier requests to forget, one after another
--- RETURN, for several requests an array of
---   {1, used_us}      taken; how long the rate is used up from now
---   {0, 1, short_us}  there is too little, and enough after this time
---   {0, 1}            the request was given back
--- COST  O(log requests of the last seconds), also for each that is settled, and O(1) for each that
---       has ended

local function take(each)
  local id, weight_us, burst_us, settled = unpack(ARGV, 4 * each - 3, 4 * each)
  local free, short_us = free_rate(KEYS[each], id, weight_us, burst_us, settled)
  return free and {1, take_rate(free)} or {0, 1, short_us}
end

if #KEYS == 1 then return take(1) end
return for_each(#KEYS, take)
