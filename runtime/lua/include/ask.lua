--- include/ask: the code that the acquires of locks with several holders share. `keys` as
--- in include/serve. Goes after include/serve, include/queued and include/other_kind.

-- The record's token, flag and ended request, and whether nobody waits; or first a refusal.
local function look(keys, id, ttl_ms, waits)
  local rec = redis.call('GET', keys.lock)
  if not rec then
    local left = redis.call('EXISTS', keys.holders, keys.queue)
    rec = left > 0 and restored(keys.lock, keys.holders)
    if not rec then return nil, NO_TOKEN, nil, NOBODY, left == 0 or nobody_waits(nil, keys.queue) end
  end
  if not is_record(rec) then return busy(keys.lock, ttl_ms) end
  local token, flag, ended = fields(rec)
  keys.limit = string.sub(rec, 3, 36)
  if ended == id then return {2} end
  if is_other(rec, KIND) then return other_kind(keys, rec, waits_in(waits) > 0) end
  return nil, token, flag, ended, flag == '0'
end

-- The answer to a request that was not let in and does not wait.
local function refused(keys, left_ms, now_ms)
  return {recall_clients(keys, now_ms) and 8 or 0, left_ms}
end

-- Adds a holder, or starts its TTL anew.
local function let_in(keys, holder, ttl_ms, token, flag, ended, now)
  local own, now_ms = nil, to_ms(now)
  -- An owner that re-enters may also be in the queue.
  if flag == '1' then leave(keys.queue, keys.waiters, string.sub(holder, 1, 34)) end
  token, own = fence(keys.holders, holder, token, now)
  put_in(keys.holders, holder, ttl_ms, now_ms, function(lasts_ms)
    local rec = KIND .. 'H' .. (keys.limit or NOBODY) .. token .. flag .. ended
    redis.call('SET', keys.lock, rec, 'PX', stays_ms(token, lasts_ms, now_ms))
  end)
  return {1, tonumber(own)}
end

-- Queues a request that was not let in, if it waits. Then serves the
-- waiters whose turn it is, which may be this one.
local function line_up(keys, holder, limit, ttl_ms, waits, token, flag, ended, now)
  local id, now_ms, position, until_ms = string.sub(holder, 1, 34), to_ms(now), nil, nil
  local demand, live_ms = KIND .. limit .. string.sub(holder, 35), waits_in(waits)
  if live_ms > 0 then position, until_ms = join(keys.queue, keys.waiters, id, waits, demand, now) end
  local first, said = first_waiter(keys.queue, keys.waiters, now_ms)
  local is_alone = not first and redis.call('EXISTS', keys.queue) == 0
  if not is_alone and (not first or kind_in(said) ~= KIND) then
    leave(keys.queue, keys.waiters, id)
    -- With more dead waiters left, the request has to ask again.
    return first and {3} or {0, 0}
  end
  local own, offers
  own, token, offers = serve(keys, holder, ttl_ms, token, ended, now)
  -- All waiters were dead.
  if is_alone and fits(keys.holders, holder, limit, now_ms) then
    keys.limit = counted(limit)
    token, own = admit(keys, holder, ttl_ms, token, ended, now)
  end
  if own or offers[1] or not flag then
    settle(keys, token, ended, now_ms)
  elseif flag == '0' then
    redis.call('SETRANGE', keys.lock, 52, '1')
  end
  tell_all(keys, offers)
  if own then return {1, tonumber(own)} end
  local left_ms = free_in(keys.holders, now_ms)
  if live_ms == 0 then return refused(keys, left_ms, now_ms) end
  if redis.call('ZRANGE', keys.queue, 0, 0)[1] == id then recall_clients(keys, now_ms, true) end
  return queued(keys.queue, id, position, until_ms, live_ms, left_ms)
end
