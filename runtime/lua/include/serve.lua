--- include/serve: who has a permit next, and what the record says of it. Goes
--- after include/queue and include/permits.

-- Gives permits to those who wait, in order, for as long as the first fits: what
-- is free may stay so behind a heavy one, and so nobody starves. They are offers,
-- which last as long as the waiter is known to live; its first renewal makes it a
-- permit like any other. `me` has it at once. Says whether that was among them,
-- and what others are to be told.
local function serve(holders, queue, waiters, me, ttl_ms, now_ms)
  local has_me, offers = false, {}
  for _ = 1, 64 do
    local first, said, left_ms = first_waiter(queue, waiters, now_ms)
    local weight, limit = string.match(said or '', 'S(%d+) (%d+)', 14)
    if not weight or not fits(holders, weight, limit, now_ms) then break end
    leave(queue, waiters, first)
    if first == me then
      has_me, left_ms = true, ttl_ms
    else
      offers[#offers + 1] = {first, said}
    end
    put_in(holders, permit(first, weight), left_ms, now_ms)
  end
  return has_me, offers
end

-- Writes the record: held as long as a permit is out, then free for a minute.
-- Permits that ended go then, or the next one would last as long as they are kept.
local function settle(lock, holders, queue, token, ended, now_ms)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  local state, expiry_ms = 'F', GRACE_MS
  if is_live(last, now_ms) then state, expiry_ms = 'H', last - now_ms end
  redis.call('PEXPIRE', holders, state == 'H' and expiry_ms or 0)
  local rec = 'S' .. state .. NOBODY .. token .. flag_for(queue) .. ended
  redis.call('SET', lock, rec, 'PX', expiry_ms)
end

local function tell_all(wake, offers)
  for _, offer in ipairs(offers) do tell(wake, offer[1], NO_TOKEN, offer[2]) end
end

-- After a permit or a waiter went: serves who waits, and remembers whose it was.
local function move_on(lock, holders, queue, waiters, wake, rec, id, now_ms)
  -- A name that is in use for something else is left alone.
  if rec and (not is_record(rec) or is_other(rec, 'S')) then return end
  local first, said = nil, nil
  if not rec then first, said = first_waiter(queue, waiters, now_ms) end
  if first and string.sub(said, 14, 14) ~= 'S' then return end
  local offers = {}
  if not nobody_waits(rec and string.sub(rec, 53, 53), queue) then
    offers = select(2, serve(holders, queue, waiters, nil, nil, now_ms))
  end
  settle(lock, holders, queue, rec and string.sub(rec, 37, 52) or NO_TOKEN, id, now_ms)
  tell_all(wake, offers)
end
