--- semaphore/release: give a permit back, if this request has it, and serve who waits.
---
--- Safe to send twice: a repeat gives back nothing, and is told that the permit
--- was released as long as no other was released since.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE permit_back
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
--- INCLUDE limit
--- INCLUDE serve
--- INCLUDE give_back
--- INCLUDE for_each
---
--- KEYS, for each request
---   1  lock     string  the record
---   2  holders  zset    holder by deadline
---   3  queue    zset    request id by ticket
---   4  waiters  hash    request id to what it said last
--- ARGV, for each request
---   1  holder   string  the request, and how it holds
---   2  wake     string  where waiters are told, but for the client's id
--- RETURN, for several requests an array of
---   1  released, now or before
---   0  expired
--- COST  O(log holders + log waiters) for each that is served

local function release(each)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  local holder, wake = ARGV[2 * each - 1], ARGV[2 * each]
  local keys = {lock = lock, holders = holders, queue = queue, waiters = waiters, wake = wake}

  return give_back(keys, holder, clock()) and 1 or 0
end

if #KEYS == 4 then return release(1) end
return for_each(#KEYS / 4, function(each)
  return back_at_once(each) or release(each)
end)
