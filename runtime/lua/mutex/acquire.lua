--- mutex/acquire: take the mutex, or wait for it in the queue.
---
--- Safe to send twice: the same request gets the same token, and its TTL starts
--- anew; one that was released or cancelled is never granted again. A waiter
--- sends it again to say that it lives, and whoever does so when the mutex is
--- free serves the first in the queue. Nothing overtakes one who lives.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE grant
--- INCLUDE at_once
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE free
--- INCLUDE hand_over
--- INCLUDE for_each
---
--- KEYS, for each request
---   1  lock     string   the record
---   2  holders  zset     who holds another kind of lock, by deadline
---   3  queue    zset     request id by ticket
---   4  waiters  hash     request id to what it said last
--- ARGV, for each request
---   1  id       string   the request
---   2  ttl_ms   integer  how long the lease lasts
---   3  live_ms  integer  for how long it is known to live if it waits; 0: it does not
---   4  ticket   integer  its place, if it was told one; or minus its age in microseconds
---   5  owner    string   `@` and the owner's name, or nothing
---   6  wake     string   where waiters are told, but for the client's id
--- RETURN, for several requests an array of
---   {1, token}    granted
---   {0, left_ms}  busy: another has it for this much longer; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy, without an expiry until now: it was given the TTL
---   {5, ticket, until_ms, again_ms}  queued: known to live until, and to ask again in
---   {7, left_ms}  busy: nobody has it, and it is kept for this much longer (hold-at-least)
--- COST  O(log waiters)

local function acquire(each, rec)
  local lock, holders, queue, waiters = unpack(KEYS, 4 * each - 3, 4 * each)
  local id, ttl_ms, live_ms, ticket, owner, wake = unpack(ARGV, 6 * each - 5, 6 * each)
  live_ms = tonumber(live_ms)
  rec = rec or restored(lock, holders)

  local last, ended, flag, is_free = NO_TOKEN, NOBODY, nil, true
  if rec then
    if not is_record(rec) then return busy(lock, ttl_ms) end
    last, flag, ended = fields(rec)
    if ended == id then return {2} end
    if is_other(rec, 'M') then return {3} end
    if holds(rec, id) then
      redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
      return {1, tonumber(last)}
    end
    local state = string.sub(rec, 2, 2)
    is_free = state == 'F'
    if not is_free and live_ms == 0 then return busy(lock, ttl_ms, state == 'K' and 7) end
  end
  local now, place, until_ms = clock(), nil, nil
  if live_ms > 0 then place, until_ms = join(queue, waiters, id, live_ms, ticket, 'M' .. owner, now) end
  if is_free then
    local first, said, left_ms = first_waiter(queue, waiters, to_ms(now))
    if first == id or first == nil or string.sub(said, 14, 14) ~= 'M' then
      leave(queue, waiters, id)
      if first and first ~= id then return {3} end
      local rest = flag_for(queue)
      -- More dead ones: ask again.
      if first == nil and rest == '1' then return {0, 0} end
      return grant(lock, id, owner, last, rest, ended, ttl_ms)
    end
    offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  elseif flag == '0' then
    redis.call('SETRANGE', lock, 52, '1')
  end
  local held = busy(lock, ttl_ms)
  if live_ms == 0 then return held end
  return queued(queue, id, place, until_ms, live_ms, held[2])
end

if #KEYS == 4 then return acquire(1, found) end
return for_each(#KEYS / 4, function(each)
  local granted, rec = grant_at_once(each)
  return granted or acquire(each, rec)
end)
