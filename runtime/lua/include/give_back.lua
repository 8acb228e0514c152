--- include/give_back: the code that the releases and cancels of locks with several holders
--- share. `keys` as in include/serve. Goes after include/serve.

-- After a holder or a waiter has gone: serves the queue, and remembers the request.
local function move_on(keys, rec, id, now)
  rec = rec or restored(keys.lock, keys.holders)
  -- A name that is in use for something else is left alone.
  if rec and (not is_record(rec) or is_other(rec, KIND)) then return end
  local now_ms, first, said = to_ms(now), nil, nil
  if not rec then first, said = first_waiter(keys.queue, keys.waiters, now_ms) end
  if first and kind_in(said) ~= KIND then return end
  local token, flag, offers, _ = NO_TOKEN, nil, {}, nil
  if rec then
    token, flag = fields(rec)
    keys.limit = string.sub(rec, 3, 36)
  end
  if not nobody_waits(flag, keys.queue) then
    _, token, offers = serve(keys, nil, nil, token, id, now)
  end
  settle(keys, token, id, now_ms)
  tell_all(keys, offers)
end

-- Ends a lease. True if the request held it, or was the last to end.
local function give_back(keys, holder, now)
  local id, rec = string.sub(holder, 1, 34), redis.call('GET', keys.lock)
  if not is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now)) then
    -- A late copy of its acquire may have queued it again.
    leave(keys.queue, keys.waiters, id)
    return rec and string.sub(rec, 54, 87) == id
  end
  take_out(keys.holders, holder)
  move_on(keys, rec, id, now)
  return true
end

-- Takes an acquisition back, and returns 1 if it was granted. Serves the queue even if the
-- request held nothing: it may have been in the way of other waiters.
local function take_back(keys, holder, now)
  local id, rec = string.sub(holder, 1, 34), redis.call('GET', keys.lock)
  local held = is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now))
  -- An expired holder stays until it is purged: its owner may have a new write lock.
  if held then take_out(keys.holders, holder) end
  leave(keys.queue, keys.waiters, id)
  move_on(keys, rec, id, now)
  return held and 1 or 0
end
