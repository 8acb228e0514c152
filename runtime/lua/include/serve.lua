--- include/serve: who has next a lock that several may hold, and what the record
--- says of it. Goes after include/tell and after one of limit, owner and readers,
--- which say whom it fits. `keys` are lock, holders, queue, waiters, and wake: where
--- waiters are told, but for the client's id.

-- Gives it to those who wait, in order, for as long as it fits the first: what is
-- free may stay so behind a heavy one, and so nobody starves. They are offers,
-- which wait for their waiter; its first renewal makes it a holder like any other. `me`
-- has it at once. Says with what token if it was among them, the lock's token, and what
-- others are to be told.
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
    local lasts_ms = ttl_ms
    if holder == me then
      mine = own
    else
      offers[#offers + 1], lasts_ms = {first, own, said, left_ms}, math.min(left_ms, OFFER_MS)
    end
    put_in(keys.holders, holder, lasts_ms, now_ms)
  end
  return mine, token, offers
end

-- Writes the record: held as long as anybody holds it, then free for a minute.
-- Who ended goes then, or the next one would last as long as they are kept.
local function settle(keys, token, ended, now_ms)
  local state, expiry_ms, last = 'F', GRACE_MS, ends_at(keys.holders, now_ms)
  if last then
    state, expiry_ms = 'H', stays_ms(token, last - now_ms, now_ms)
    redis.call('PEXPIRE', keys.holders, expiry_ms)
  end
  local rec = KIND .. state .. NOBODY .. token .. flag_for(keys.queue) .. ended
  redis.call('SET', keys.lock, rec, 'PX', expiry_ms)
end

local function tell_all(keys, offers)
  for _, offer in ipairs(offers) do
    tell(keys.wake, keys.queue, keys.waiters, unpack(offer))
  end
end
