--- include/acquire_mutex: takes the mutex, or waits for it in the queue. Goes after
--- include/take_turn, include/other_kind, include/remains, include/queued and include/channel.

-- Answers the request `holder`: its id, and its owner. `waits` says how it waits; see
-- include/waiter. `rec` is the record, if there is one. A waiter
-- with a `mark` is told apart by it.
local function acquire(lock, holders, queue, waiters, holder, ttl_ms, waits, rec, mark)
  local id, owner, wake = string.sub(holder, 1, 34), string.sub(holder, 35), channel()
  local live_ms = waits_in(waits)
  rec = rec or restored(lock, holders)
  local last, ended, flag, is_free = NO_TOKEN, NOBODY, nil, true
  if rec then
    if not is_record(rec) then return busy(lock, ttl_ms) end
    last, flag, ended = fields(rec)
    if ended == id then return {2} end
    if is_other(rec, 'M') then
      return other_kind({lock = lock, holders = holders, wake = wake}, rec, live_ms > 0)
    end
    if holds(rec, id) then
      redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
      return {1, tonumber(last)}
    end
    local state = string.sub(rec, 2, 2)
    is_free = state == 'F'
    if not is_free and live_ms == 0 then
      local is_recalled = state == 'H' and recall(lock, rec, wake)
      return busy(lock, ttl_ms, state == 'K' and 7 or is_recalled and 8)
    end
  end
  local position, until_ms, answer
  if live_ms > 0 then position, until_ms = join(queue, waiters, id, waits, 'M' .. (mark or '') .. owner, clock()) end
  if is_free then answer = take_turn(lock, queue, waiters, wake, id, owner, ttl_ms, last, ended) end
  if answer then return answer end
  if flag == '0' and not is_free then redis.call('SETRANGE', lock, 52, '1') end
  if not is_free and live_ms > 0 and may_recall(rec) and first_waiter(queue, waiters, to_ms(clock())) == id then
    recall(lock, rec, wake, true)
  end
  local held = busy(lock, ttl_ms)
  return live_ms == 0 and held or queued(queue, id, position, until_ms, live_ms, held[2])
end
