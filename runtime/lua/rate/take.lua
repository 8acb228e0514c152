--- rate/take: take from a rate, now or for a later time. Never queued: the time is decided at once, and
--- nobody who comes later changes it.
---
--- Safe to send twice: a request takes once. Also after rate/give_back, so a late copy of it takes
--- nothing. A request that has taken for a later time asks again then.
---
--- INCLUDE record token rate write_rate place_rate take_rate for_each
---
--- KEYS, for each request
---   1  rate       zset     see include/rate
--- ARGV, for each request
---   1  id         string   the request
---   2  weight_us  integer  for how long it uses the rate up
---   3  burst_us   integer  for how long the rate may be used up at most
---   4  settled    string   earlier requests to forget, one after another
---   5  wait_us    integer  how long the request may wait
--- RETURN, for several requests an array of
---   {1, used_us}      taken; how long the rate is used up from now
---   {2, 1, after_us}  taken; the request may begin after this time
---   {0, 1, after_us}  nothing is taken; the request could begin after this time, which is too long
---   {0, 1}            the request was given back
--- COST  O(log requests of the last seconds), also for each that is settled, and O(1) for each that
---       has ended and for each free span

local function take(each)
  local rate = read_part(KEYS[each], unpack(ARGV, 5 * each - 4, 5 * each))
  if not rate then return {0, 1} end
  local last, after_us, is_long = place_all({rate})
  if is_long then return {0, 1, after_us} end
  local used_us = take_rate(rate)
  return last and {2, 1, after_us} or {1, used_us}
end

if #KEYS == 1 then return take(1) end
return for_each(#KEYS, take)
