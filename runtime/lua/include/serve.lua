--- include/serve: who has next a lock that several may hold, and what the record
--- says of it. Goes after include/queue and after one of limit, owner and readers,
--- which say whom it fits. `keys` are lock, holders, queue, waiters, and wake: where
--- waiters are told, but for the client's id.

-- Gives it to those who wait, in order, for as long as it fits the first: what is
-- free may stay so behind a heavy one, and so nobody starves. They are offers,
-- which last as long as the waiter is known to live; its first renewal makes it a
-- holder like any other. `me` has it at once. Says with what token if it was among
-- them, the lock's token, and what others are to be told.
local function serve(keys, me, ttl_ms, token, now)
  local now_ms, mine, offers = to_ms(now), nil, {}
  for _ = 1, 64 do
    local first, said, left_ms = first_waiter(keys.queue, keys.waiters, now_ms)
    if not first or string.sub(said, 14, 14) ~= KIND then break end
    local limit, how = string.match(said, '(%d*)(.*)', 15)
    local holder, own = first .. how, nil
    if not fits(keys.holders, holder, limit, now_ms) then break end
    leave(keys.queue, keys.waiters, first)
    token, own = fence(keys.holders, holder, token, now)
    if holder == me then
      mine, left_ms = own, ttl_ms
    else
      offers[#offers + 1] = {first, own, said}
    end
    put_in(keys.holders, holder, left_ms, now_ms)
  end
  return mine, token, offers
end

-- Writes the record: held as long as anybody holds it, then free for a minute.
-- Who ended goes then, or the next one would last as long as they are kept.
local function settle(keys, token, ended, now_ms)
  local state, expiry_ms, last = 'F', GRACE_MS, ends_at(keys.holders, now_ms)
  if last then
    state, expiry_ms = 'H', last - now_ms
    redis.call('PEXPIRE', keys.holders, expiry_ms)
  end
  local rec = KIND .. state .. NOBODY .. token .. flag_for(keys.queue) .. ended
  redis.call('SET', keys.lock, rec, 'PX', expiry_ms)
end

local function tell_all(wake, offers)
  for _, offer in ipairs(offers) do tell(wake, offer[1], offer[2], offer[3]) end
end

-- The record's token, flag and ended request; or why there can be no lease.
local function look(lock, id, ttl_ms)
  local rec = redis.call('GET', lock)
  if not rec then return nil, NO_TOKEN, nil, NOBODY end
  if not is_record(rec) then return busy(lock, ttl_ms) end
  local token, flag, ended = string.sub(rec, 37, 52), string.sub(rec, 53, 53), string.sub(rec, 54, 87)
  if ended == id then return {2} end
  if is_other(rec, KIND) then return {3} end
  return nil, token, flag, ended
end

-- Lets a holder in, or starts its TTL anew.
local function let_in(keys, holder, ttl_ms, token, flag, ended, now)
  local own
  -- An owner who has it comes in again past his own place in the queue.
  if flag == '1' then leave(keys.queue, keys.waiters, string.sub(holder, 1, 34)) end
  token, own = fence(keys.holders, holder, token, now)
  local expiry_ms = put_in(keys.holders, holder, ttl_ms, to_ms(now))
  redis.call('SET', keys.lock, KIND .. 'H' .. NOBODY .. token .. flag .. ended, 'PX', expiry_ms)
  return {1, tonumber(own)}
end

-- One who is not let in at once joins the queue, if it waits (`live_ms` above 0);
-- and whoever has his turn is served, be it this one.
local function line_up(keys, holder, limit, ttl_ms, live_ms, ticket, token, flag, ended, now)
  local id, now_ms, place, until_ms = string.sub(holder, 1, 34), to_ms(now), nil, nil
  local demand = KIND .. limit .. string.sub(holder, 35)
  if live_ms > 0 then
    place, until_ms = join(keys.queue, keys.waiters, id, live_ms, ticket, demand, now)
  end
  local first, said = first_waiter(keys.queue, keys.waiters, now_ms)
  local is_alone = not first and redis.call('EXISTS', keys.queue) == 0
  if not is_alone and (not first or string.sub(said, 14, 14) ~= KIND) then
    leave(keys.queue, keys.waiters, id)
    return first and {3} or {0, 0} -- with more dead ones there: ask again
  end
  local own, offers
  own, token, offers = serve(keys, holder, ttl_ms, token, now)
  if is_alone and fits(keys.holders, holder, limit, now_ms) then -- only dead ones were there
    token, own = fence(keys.holders, holder, token, now)
    put_in(keys.holders, holder, ttl_ms, now_ms)
  end
  if own or offers[1] or not flag then
    settle(keys, token, ended, now_ms)
  elseif flag == '0' then
    redis.call('SETRANGE', keys.lock, 52, '1')
  end
  tell_all(keys.wake, offers)
  if own then return {1, tonumber(own)} end
  local left_ms = free_in(keys.holders, now_ms)
  if live_ms == 0 then return {0, left_ms} end
  return queued(keys.queue, id, place, until_ms, live_ms, left_ms)
end

-- After a holder or a waiter went: serves who waits, and remembers whose it was.
local function move_on(keys, rec, id, now)
  -- A name that is in use for something else is left alone.
  if rec and (not is_record(rec) or is_other(rec, KIND)) then return end
  local now_ms, first, said = to_ms(now), nil, nil
  if not rec then first, said = first_waiter(keys.queue, keys.waiters, now_ms) end
  if first and string.sub(said, 14, 14) ~= KIND then return end
  local token, offers, _ = rec and string.sub(rec, 37, 52) or NO_TOKEN, {}, nil
  if not nobody_waits(rec and string.sub(rec, 53, 53), keys.queue) then
    _, token, offers = serve(keys, nil, nil, token, now)
  end
  settle(keys, token, id, now_ms)
  tell_all(keys.wake, offers)
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
