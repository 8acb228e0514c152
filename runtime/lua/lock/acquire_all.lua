--- lock/acquire_all: take several mutexes and permits, if all are free and nobody waits for one,
--- and of rates, if there is enough.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their locks get the same tokens, and their TTLs start
--- anew. If one request was released or cancelled, none is granted. Each permit brings its
--- own limit for the total weight, and each rate its own burst.
---
--- INCLUDE record token grant fields take_mutex holder holders rule_semaphore take_permit take_rate
---
--- KEYS, for each lock; then the key of each rate; and the last one once
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  tokens   string  no token that was given is greater
--- ARGV, followed by two for each lock, and by those of rate/take for each rate
---   1  ttl_ms  integer  how long the leases last
---   2  locks   integer  how many locks there are
--- For each lock: the request and how it holds; the limit, 0 for a mutex.
--- RETURN
---   {1, tokens, used_us}  granted; a token for each lock, 0 for a permit; then as in rate/take
---   {0, nth}              the first lock that is not free, or a rate whose request was given back
---   {0, nth, short_us}    the first rate that has too little; the locks are counted, too
--- COST  O(log holders) for each lock, and for each rate as in rate/take

local ttl_ms, locks = tonumber(ARGV[1]), tonumber(ARGV[2])

local free, granted = {}, {1}
for each = 1, locks do
  local lock, holders, queue = unpack(KEYS, 3 * each - 2, 3 * each)
  local holder, limit = unpack(ARGV, 2 * each + 1, 2 * each + 2)
  local is_mutex = limit == '0'
  free[each] = (is_mutex and free_mutex or free_permit)(lock, holders, queue, holder, limit)
  if not free[each] then return {0, each} end
end
local rates = {}
for each = 1, #KEYS - 1 - 3 * locks do
  local at, short_us = 2 * locks + 4 * each, nil
  rates[each], short_us = free_rate(KEYS[3 * locks + each], unpack(ARGV, at - 1, at + 2))
  if not rates[each] then return {0, locks + each, short_us} end
end
for each, rate in ipairs(rates) do granted[1 + locks + each] = take_rate(rate) end
-- The permits come first: their commands may fail where the user lacks a right. Then all
-- permits are taken back, and no mutex was taken yet.
local function take(permit)
  local is_ok, failure = pcall(take_permit, permit, ttl_ms)
  if is_ok then return 0 end
  for _, each in ipairs(free) do
    if each.holder then pcall(take_out, each.holders, each.holder) end
  end
  error(failure, 0)
end
for each, lock in ipairs(free) do
  if lock.holder then granted[1 + each] = take(lock) end
end
for each, lock in ipairs(free) do
  if not lock.holder then granted[1 + each] = take_mutex(lock, ttl_ms) end
end
return granted
