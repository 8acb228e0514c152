--- semaphore/release: end a permit, if this request has it, and serve the waiters.
---
--- Safe to send twice: a repeat ends nothing. It gets the same answer as long as no other
--- permit was released since.
---
--- INCLUDE record token permit_release_fast fields remains waiter queue tell holder holders rule_semaphore serve give_back for_each
---
--- KEYS, for each request
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
---   3  queue    zset    request ids by position
---   4  waiters  hash    each waiter's last ask
--- ARGV, for each request
---   1  holder   string  the request and how it holds
---   2  wake     string  the channel for hints, without the client's id
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
  return permit_release_fast(each) or release(each)
end)
