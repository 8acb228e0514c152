--- include/hand_over: offers a mutex to the next waiter, or frees it. Goes after
--- include/tell and include/free.

-- Offers the mutex to a waiter. Its first renewal makes the offer a lease.
local function offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  leave(queue, waiters, first)
  local token, lasts_ms = next_token(last), math.min(left_ms, OFFER_MS)
  local owner = string.match(demand_in(said), '[@\n].*') or ''
  redis.call('SET', lock, 'MO' .. first .. token .. flag_for(queue) .. ended .. owner, 'PX', lasts_ms)
  tell(wake, queue, waiters, first, token, said, left_ms)
end

-- Offers the mutex to the first waiter, or frees it if nobody waits. A waiter for another
-- kind of lock gets no offer, but a mutex that was held becomes free even then.
local function hand_over(lock, queue, waiters, wake, rec, ended)
  local last = rec and string.sub(rec, 37, 52) or NO_TOKEN
  local first, said, left_ms = first_waiter(queue, waiters, to_ms(clock()))
  if first and kind_in(said) == 'M' then
    offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  elseif not first or rec then
    redis.call('SET', lock, 'MF' .. NOBODY .. last .. flag_for(queue) .. ended, 'PX', free_ms(last))
  end
end

-- Ends a lease: the mutex goes to the next waiter, or becomes free.
local function finish(lock, queue, waiters, wake, rec, id)
  if string.sub(rec, 53, 53) == '1' then
    hand_over(lock, queue, waiters, wake, rec, id)
  else
    free(lock, rec, id)
  end
end
