--- include/give_back: what the releases and cancels of a lock that several may hold
--- have in common. `keys` as of include/serve, after which it goes.

-- After a holder or a waiter went: serves who waits, and remembers whose it was.
local function move_on(keys, rec, id, now)
  rec = rec or restored(keys.lock, keys.holders)
  -- A name that is in use for something else is left alone.
  if rec and (not is_record(rec) or is_other(rec, KIND)) then return end
  local now_ms, first, said = to_ms(now), nil, nil
  if not rec then first, said = first_waiter(keys.queue, keys.waiters, now_ms) end
  if first and string.sub(said, 14, 14) ~= KIND then return end
  local token, flag, offers, _ = NO_TOKEN, nil, {}, nil
  if rec then token, flag = fields(rec) end
  if not nobody_waits(flag, keys.queue) then
    _, token, offers = serve(keys, nil, nil, token, now)
  end
  settle(keys, token, id, now_ms)
  tell_all(keys, offers)
end

-- Ends what a holder has, and says whether it had it, or ended it before.
local function give_back(keys, holder, now)
  local id, rec = string.sub(holder, 1, 34), redis.call('GET', keys.lock)
  if not is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now)) then
    -- A late copy of an ask may have queued it again.
    leave(keys.queue, keys.waiters, id)
    return rec and string.sub(rec, 54, 87) == id
  end
  take_out(keys.holders, holder)
  move_on(keys, rec, id, now)
  return true
end

-- Takes an acquisition back, and says whether it had been granted. Serves who
-- waits even if it held nothing: what was in their way may be gone.
local function take_back(keys, holder, now)
  local id, rec = string.sub(holder, 1, 34), redis.call('GET', keys.lock)
  local held = is_live(redis.call('ZSCORE', keys.holders, holder), to_ms(now))
  -- One that ended is left to be forgotten: its owner may write anew.
  if held then take_out(keys.holders, holder) end
  leave(keys.queue, keys.waiters, id)
  move_on(keys, rec, id, now)
  return held and 1 or 0
end
