--- lock/acquire_all: take several mutexes and permits, if all are free and nobody waits for one,
--- and of rates, now or for a later time.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their locks get the same tokens, and their TTLs start
--- anew. If one request was released or cancelled, none is granted. Each permit brings its
--- own limit for the total weight, and each rate its own burst.
---
--- INCLUDE record token grant fields take_mutex holder holders rule_semaphore take_permit rate write_rate place_rate take_rate give_back_rate take_rates take_locks for_each
---
--- KEYS, for each lock of each request; then the key of each of its rates; and the last one once
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  tokens   string  no token that was given is greater
--- ARGV, for each request
---   1  ttl_ms  integer  how long the leases last
---   2  locks   integer  how many locks there are
---   3  rates   integer  how many rates there are
--- Then for each lock: the request and how it holds; the limit, 0 for a mutex. Then for each rate
--- the arguments of rate/take.
--- RETURN, for several requests an array of
---   {1, tokens, used_us}  granted; a token for each lock, 0 for a permit; then as in rate/take
---   {2, nth, after_us}    all locks are free and none is taken, but of all rates is: all may begin after
---                         this time, because of the nth, and ask again then; the locks are counted
---   {0, nth, after_us}    the same, but nothing is taken, since the time is too long
---   {0, nth}              the first lock that is not free, or a rate whose request was given back
--- COST  O(log holders) for each lock, and for each rate as in rate/take

-- A request, whose keys and arguments come behind these.
local function take_all(key, arg)
  local ttl_ms, locks, of_rates = unpack(ARGV, arg + 1, arg + 3)
  local free, rates, granted = {}, {}, {1}
  for each = 1, locks do
    local lock, holders, queue = unpack(KEYS, key + 3 * each - 2, key + 3 * each)
    local holder, limit = unpack(ARGV, arg + 2 + 2 * each, arg + 3 + 2 * each)
    local look = limit == '0' and free_mutex or free_permit
    free[each] = look(lock, holders, queue, holder, limit)
    if not free[each] then return {0, each} end
  end
  key, arg = key + 3 * locks, arg + 3 + 2 * locks
  for each = 1, of_rates do
    rates[each] = read_part(KEYS[key + each], unpack(ARGV, arg + 5 * each - 4, arg + 5 * each))
    if not rates[each] then return {0, locks + each} end
  end
  local last, after_us, is_long = place_all(rates)
  if is_long then return {0, locks + last, after_us} end
  if last then
    take_rates(rates)
    return {2, locks + last, after_us}
  end
  take_locks(free, rates, tonumber(ttl_ms), granted)
  return granted
end

local requests, key, arg = {}, 0, 0
while arg < #ARGV do
  requests[#requests + 1] = {key, arg}
  local locks, rates = unpack(ARGV, arg + 2, arg + 3)
  key, arg = key + 3 * locks + rates, arg + 3 + 2 * locks + 5 * rates
end
if #requests == 1 then return take_all(0, 0) end
return for_each(#requests, function(each) return take_all(unpack(requests[each])) end)
