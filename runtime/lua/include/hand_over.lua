--- include/hand_over: who has a mutex next. Goes after include/tell and include/free.

-- Whether a request has the mutex, or was offered it.
local function holds(rec, id)
  return string.find(rec, '^M[HO]') ~= nil and string.sub(rec, 3, 36) == id
end

-- Offers the mutex to a waiter, for as long as an offer waits. Its first renewal makes it
-- held.
local function offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  leave(queue, waiters, first)
  local token, lasts_ms = next_token(last), math.min(left_ms, OFFER_MS)
  local owner = string.sub(said, 15)
  redis.call('SET', lock, 'MO' .. first .. token .. flag_for(queue) .. ended .. owner, 'PX', lasts_ms)
  tell(wake, queue, waiters, first, token, said, left_ms)
end

-- To the first who waits; or, if nobody does, it is free. Those who wait for
-- another kind of lock are left alone; but what was held is free even then.
local function hand_over(lock, queue, waiters, wake, rec, ended)
  local last = rec and string.sub(rec, 37, 52) or NO_TOKEN
  local first, said, left_ms = first_waiter(queue, waiters, to_ms(clock()))
  if first and string.sub(said, 14, 14) == 'M' then
    offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  elseif not first or rec then
    redis.call('SET', lock, 'MF' .. NOBODY .. last .. flag_for(queue) .. ended, 'PX', GRACE_MS)
  end
end

-- Ends what a request holds: the next has it, or it is free.
local function finish(lock, queue, waiters, wake, rec, id)
  if string.sub(rec, 53, 53) == '1' then
    hand_over(lock, queue, waiters, wake, rec, id)
  else
    free(lock, rec, id)
  end
end
