--- multi_holder/linger: let a client keep a permit, or a reader's or writer's lease, without
--- using it, until another client wants the lock.
---
--- Safe to send twice. If others want it and nobody uses the lease, it is released, and the
--- waiters are served. A client that has heard a recall asks if it is true: then a request that
--- does not wait counts, too. Otherwise the lease lasts for its whole TTL from now; of one in use,
--- no time is ever taken away. All fencing tokens up to the clock's time are reserved for a
--- writer's client, which gives them to its next leases. Goes with the rule of its kind, such as
--- include/rule_rw.
---
--- INCLUDE record token fields remains waiter queue tell holder holders rule_* serve give_back recall_clients prolong extend
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  tokens   string   no token that was given is greater
--- ARGV
---   1  holder   string   the request and how it holds
---   2  ttl_ms   integer  how long the lease lasts from now
---   3  usage    integer  1: a task works under the lease, 2: its client has heard a recall, 3: both
---   4  wake     string   the channel for hints, without the client's id
--- RETURN
---   {4, token}  kept: a writer's client has the block of this token and all tokens below
---   {5}         wanted: others want it, and the lease is in use
---   {1}         released, now or before
---   {0}         expired
--- COST  O(log holders + log waiters) for each that is served

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ARGV[4]}
local holder, ttl_ms, usage = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local now = clock()
local now_ms, rec = to_ms(now), redis.call('GET', keys.lock)
local deadline_ms = redis.call('ZSCORE', keys.holders, holder)
if not is_live(deadline_ms, now_ms) then
  return {give_back(keys, holder, now) and 1 or 0}
end
rec = rec or restored(keys.lock, keys.holders)
local flag = rec and string.sub(rec, 53, 53)
local is_wanted = usage >= 2 and is_recalled(keys.holders, holder, now_ms)
  or not nobody_waits(flag, keys.queue) and first_waiter(keys.queue, keys.waiters, now_ms)
if is_wanted then
  if usage % 2 == 1 then return {5} end
  give_back(keys, holder, now)
  return {1}
end
local token = NO_TOKEN
if is_writer(holder) and rec and is_record(rec) and not is_other(rec, KIND) then
  token = string.sub(rec, 37, 52)
  if now > token then token = now end
  note_token(token)
  redis.call('SETRANGE', keys.lock, 36, token)
end
-- A renewal that its holder counts on may have come first.
if usage % 2 == 1 then ttl_ms = math.max(ttl_ms, deadline_ms - now_ms) end
extend(keys.lock, keys.holders, holder, ttl_ms)
mark_client(keys.holders, holder, now_ms + ttl_ms, now_ms)
return {4, tonumber(token)}
