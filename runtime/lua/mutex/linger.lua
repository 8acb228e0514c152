--- mutex/linger: let a client keep a mutex without using it, until another client wants it.
---
--- Safe to send twice. If others want it and nobody uses the lease, it is released, and the
--- first waiter gets an offer. A client that has heard a recall asks if it is true: then a
--- request that does not wait counts, too. Otherwise the lease lasts for its whole TTL from now; of
--- one in use, no time is ever taken away. All fencing tokens up to the clock's time are reserved
--- for the client, which gives them to its next leases.
---
--- INCLUDE record token free fields waiter queue tell hand_over
---
--- KEYS
---   1  lock     string   the record
---   2  queue    zset     request ids by position
---   3  waiters  hash     each waiter's last ask
---   4  tokens   string   no token that was given is greater
--- ARGV
---   1  id       string   the request
---   2  ttl_ms   integer  how long the lease lasts from now
---   3  usage    integer  1: a task works under the lease, 2: its client has heard a recall, 3: both
---   4  wake     string   the channel for hints, without the client's id
--- RETURN
---   {4, token}  kept: the client has the block of this token and all tokens below
---   {5}         wanted: others want it, and the lease is in use
---   {1}         released, now or before
---   {0}         expired: nobody has it
---   {2}         taken: another request has it, or had it since
--- COST  O(log waiters)

local lock, queue, waiters = KEYS[1], KEYS[2], KEYS[3]
local id, ttl_ms, usage, wake = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local rec = redis.call('GET', lock)
if not rec or not holds(rec, id) then
  -- A late copy of its acquire may have queued it again.
  leave(queue, waiters, id)
  return {not rec and 0 or string.sub(rec, 54, 87) == id and 1 or 2}
end
local token, flag, ended = fields(rec)
local now = clock()
local is_wanted = usage >= 2 and string.sub(rec, 88, 88) == RECALLED
if not is_wanted and flag == '1' then
  is_wanted = first_waiter(queue, waiters, to_ms(now))
  flag = flag_for(queue)
end
if is_wanted then
  if usage % 2 == 1 then return {5} end
  finish(lock, queue, waiters, wake, rec, id)
  return {1}
end
-- A renewal that its holder counts on may have come first.
if usage % 2 == 1 then ttl_ms = math.max(ttl_ms, redis.call('PTTL', lock)) end
if now > token then token = now end
note_token(token)
redis.call('SET', lock, 'MH' .. id .. token .. flag .. ended .. LINGERS .. owner_in(rec), 'PX', ttl_ms)
return {4, tonumber(token)}
