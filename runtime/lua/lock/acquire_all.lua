--- lock/acquire_all: take several mutexes and permits, if all are free and nobody waits for one.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their locks get the same tokens, and their TTLs start
--- anew. If one request was released or cancelled, none is granted. Each permit brings its
--- own limit for the total weight.
---
--- INCLUDE record token grant fields take_mutex holder holders rule_semaphore take_permit
---
--- KEYS, for each lock, and the last one once
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  tokens   string  no token that was given is greater
--- ARGV, followed for each lock by the request and how it holds, and the limit: 0 for a mutex
---   1  ttl_ms  integer  how long the leases last
--- RETURN
---   {1, tokens}  granted; one token for each lock, 0 for a permit
---   {0, nth}     the first lock that is not free
--- COST  O(log holders) for each lock

local ttl_ms = tonumber(ARGV[1])

local free, granted = {}, {1}
for each = 1, (#KEYS - 1) / 3 do
  local lock, holders, queue = unpack(KEYS, 3 * each - 2, 3 * each)
  local holder, limit = unpack(ARGV, 2 * each, 2 * each + 1)
  local is_mutex = limit == '0'
  free[each] = (is_mutex and free_mutex or free_permit)(lock, holders, queue, holder, limit)
  if not free[each] then return {0, each} end
end
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
