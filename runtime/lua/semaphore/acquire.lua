--- semaphore/acquire: take a permit, or wait for one in the queue.
---
--- Safe to send twice: a request that has a permit keeps it, and its TTL starts
--- anew; one that was released or cancelled is not granted again. The limit is
--- the caller's own: it is held against all the weight that is out. A waiter
--- sends it again to say that it lives. Nothing overtakes one who lives.
---
--- INCLUDE record
--- INCLUDE queue
--- INCLUDE permits
--- INCLUDE serve
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     permit by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV
---   1  id       string   the request
---   2  weight   integer  how much of the limit this permit takes
---   3  ttl_ms   integer  how long the permit lasts
---   4  limit    integer  how much weight may be out
---   5  live_ms  integer  for how long it is known to live if it waits; 0: it does not
---   6  ticket   integer  its place, if it was told one; or minus its age in microseconds
---   7  wake     string   where waiters are told, but for the client's id
--- RETURN
---   {1, 0}        granted; permits have no fencing token
---   {0, left_ms}  busy: the first permit ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
---   {5, ticket, until_ms, again_ms}  queued: known to live until, and to ask again in
--- COST  O(log permits + log waiters) for each that is served

local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, weight, ttl_ms, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local live_ms, ticket, wake = tonumber(ARGV[5]), ARGV[6], ARGV[7]

local token, ended, flag = NO_TOKEN, NOBODY, nil
local rec = redis.call('GET', lock)
if rec then
  if not is_record(rec) then return busy(lock, ttl_ms) end
  token, flag, ended = string.sub(rec, 37, 52), string.sub(rec, 53, 53), string.sub(rec, 54, 87)
  if ended == id then return {2} end
  if is_other(rec, 'S') then return {3} end
end
local now = clock()
local now_ms, me, nobody = to_ms(now), permit(id, weight), nobody_waits(flag, queue)
local has_it = is_live(redis.call('ZSCORE', holders, me), now_ms)
if has_it or nobody and fits(holders, weight, limit, now_ms) then
  local expiry_ms = put_in(holders, me, ttl_ms, now_ms)
  local keeps = 'SH' .. NOBODY .. token .. (nobody and '0' or '1') .. ended
  redis.call('SET', lock, keeps, 'PX', expiry_ms)
  return {1, 0}
elseif nobody and live_ms == 0 then
  return {0, first_ends_in(holders, now_ms)}
end

local place, until_ms
if live_ms > 0 then
  place, until_ms = join(queue, waiters, id, live_ms, ticket, 'S' .. weight .. ' ' .. limit, now)
end
local first, said = first_waiter(queue, waiters, now_ms)
local is_alone = not first and redis.call('EXISTS', queue) == 0
if not is_alone and (not first or string.sub(said, 14, 14) ~= 'S') then
  leave(queue, waiters, id)
  return first and {3} or {0, 0} -- with more dead ones there: ask again
end
local has_me, offers = serve(holders, queue, waiters, id, ttl_ms, now_ms)
if is_alone and fits(holders, weight, limit, now_ms) then -- only dead ones were there
  put_in(holders, me, ttl_ms, now_ms)
  has_me = true
end
if has_me or offers[1] or not rec then
  settle(lock, holders, queue, token, ended, now_ms)
elseif flag == '0' then
  redis.call('SETRANGE', lock, 52, '1')
end
tell_all(wake, offers)
if has_me then return {1, 0} end
local left_ms = first_ends_in(holders, now_ms)
if live_ms == 0 then return {0, left_ms} end
return queued(queue, id, place, until_ms, live_ms, left_ms)
