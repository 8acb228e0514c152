--- mutex/acquire_all: take several mutexes, if all are free and nobody waits for one.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their mutexes get the same tokens, and their TTLs
--- start anew.
---
--- INCLUDE record token grant fields take_mutex
---
--- KEYS, for each mutex, and the last one once
---   1  lock     string  the record
---   2  holders  zset    holders of another kind of lock, by deadline
---   3  queue    zset    request ids by position
---   4  tokens   string  no token that was given is greater
--- ARGV, followed by the request of each mutex, its owner and its note
---   1  ttl_ms  integer  how long the leases last
--- RETURN
---   {1, tokens}  granted; one token for each mutex
---   {0, nth}     the first mutex that is not free
--- COST  O(mutexes)

local ttl_ms = ARGV[1]

local free = {}
for each = 1, (#KEYS - 1) / 3 do
  local lock, holders, queue = unpack(KEYS, 3 * each - 2, 3 * each)
  free[each] = free_mutex(lock, holders, queue, ARGV[1 + each])
  if not free[each] then return {0, each} end
end
local granted = {1}
for each, mutex in ipairs(free) do
  granted[1 + each] = take_mutex(mutex, ttl_ms)
end
return granted
