--- lock/acquire_all: take several mutexes and permits, if all are free and nobody waits for one,
--- and of rates, if there is enough.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their locks get the same tokens, and their TTLs start
--- anew. If one request was released or cancelled, none is granted. Each permit brings its
--- own limit for the total weight, and each rate its own burst.
---
--- INCLUDE record token grant fields take_mutex holder holders rule_semaphore take_permit take_locks rate take_rate for_each
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
---   {0, nth}              the first lock that is not free, or a rate whose request was given back
---   {0, nth, short_us}    the first rate that has too little; the locks are counted, too
--- COST  O(log holders) for each lock, and for each rate as in rate/take

-- A request, whose keys and arguments come behind these.
local function take_all(key, arg)
  local ttl_ms, locks, rates = unpack(ARGV, arg + 1, arg + 3)
  local free, parts, granted = {}, {}, {1}
  for each = 1, locks do
    local lock, holders, queue = unpack(KEYS, key + 3 * each - 2, key + 3 * each)
    local holder, limit = unpack(ARGV, arg + 2 + 2 * each, arg + 3 + 2 * each)
    local look = limit == '0' and free_mutex or free_permit
    free[each] = look(lock, holders, queue, holder, limit)
    if not free[each] then return {0, each} end
  end
  key, arg = key + 3 * locks, arg + 3 + 2 * locks
  for each = 1, rates do
    local short_us
    parts[each], short_us = free_rate(KEYS[key + each], unpack(ARGV, arg + 4 * each - 3, arg + 4 * each))
    if not parts[each] then return {0, locks + each, short_us} end
  end
  for each, part in ipairs(parts) do granted[1 + locks + each] = take_rate(part) end
  take_locks(free, tonumber(ttl_ms), granted)
  return granted
end

local requests, key, arg = {}, 0, 0
while arg < #ARGV do
  requests[#requests + 1] = {key, arg}
  local locks, rates = unpack(ARGV, arg + 2, arg + 3)
  key, arg = key + 3 * locks + rates, arg + 3 + 2 * locks + 4 * rates
end
if #requests == 1 then return take_all(0, 0) end
return for_each(#requests, function(each) return take_all(unpack(requests[each])) end)
