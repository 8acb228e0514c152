--- include/take_turn: a request meets a free mutex with waiters. Goes after
--- include/hand_over and include/grant.

-- Offers the mutex to the first live waiter. If that is the request itself, or if all were
-- dead, the request gets the mutex. Returns the request's answer; nothing if another waiter
-- has an offer now.
local function take_turn(lock, queue, waiters, wake, id, owner, ttl_ms, last, ended)
  local first, said, left_ms = first_waiter(queue, waiters, to_ms(clock()))
  if first and first ~= id and kind_in(said) == 'M' then
    return offer(lock, queue, waiters, wake, first, said, left_ms, last, ended)
  end
  leave(queue, waiters, id)
  if first and first ~= id then return {3} end
  local flag = flag_for(queue)
  -- More dead waiters are left: ask again.
  if first == nil and flag == '1' then return {0, 0} end
  return grant(lock, id, owner, last, flag, ended, ttl_ms)
end
