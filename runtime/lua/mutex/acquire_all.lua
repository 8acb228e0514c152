--- mutex/acquire_all: take several mutexes, if all are free and nobody waits for one.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their mutexes get the same tokens, and their TTLs
--- start anew.
---
--- INCLUDE record token grant fields take_mutex for_each
---
--- KEYS, for each mutex of each request, and the last one once
---   1  lock     string  the record
---   2  holders  zset    holders of another kind of lock, by deadline
---   3  queue    zset    request ids by position
---   4  tokens   string  no token that was given is greater
--- ARGV, for each request
---   1  ttl_ms   integer  how long the leases last
---   2  mutexes  integer  how many mutexes there are
--- Then for each mutex: the request, its owner and its note.
--- RETURN, for several requests an array of
---   {1, tokens}  granted; one token for each mutex
---   {0, nth}     the first mutex that is not free
--- COST  O(mutexes)

-- A request, whose keys and arguments come behind these.
local function take_all(key, arg)
  local ttl_ms, mutexes = unpack(ARGV, arg + 1, arg + 2)
  local free, granted = {}, {1}
  for each = 1, mutexes do
    local lock, holders, queue = unpack(KEYS, key + 3 * each - 2, key + 3 * each)
    free[each] = free_mutex(lock, holders, queue, ARGV[arg + 2 + each])
    if not free[each] then return {0, each} end
  end
  for each, mutex in ipairs(free) do
    granted[1 + each] = take_mutex(mutex, ttl_ms)
  end
  return granted
end

local requests, key, arg = {}, 0, 0
while arg < #ARGV do
  requests[#requests + 1] = {key, arg}
  local mutexes = ARGV[arg + 2]
  key, arg = key + 3 * mutexes, arg + 2 + mutexes
end
if #requests == 1 then return take_all(0, 0) end
return for_each(#requests, function(each) return take_all(unpack(requests[each])) end)
