--- include/serve: lets the next waiters into a lock with several holders, and records it. `keys`
--- are lock, holders, queue, waiters and wake, the channel for hints without the client's
--- id; then limit, as the record has it. Goes after include/tell, and after one of
--- rule_semaphore, rule_reentrant and rule_rw, which say who fits.

-- Lets a waiter in, and returns the lock's token with it, and its own. The record has a new token first.
local function admit(keys, holder, lasts_ms, token, ended, now)
  local with, own = fence(keys.holders, holder, token, now)
  put_in(keys.holders, holder, lasts_ms, to_ms(now), function(expiry_ms)
    local rec = KIND .. 'H' .. NOBODY .. with .. '1' .. ended
    if with ~= token then redis.call('SET', keys.lock, rec, 'PX', stays_ms(with, expiry_ms, to_ms(now))) end
  end)
  return with, own
end

-- Serves the waiters in order, as long as the first one fits. Room behind a heavy waiter may
-- stay free, so that it does not starve. A waiter gets an offer, and its first renewal makes
-- that a lease; the holder `me` gets the lock at once. Returns the token of `me` if it was
-- served, the lock's token, and the offers to be told.
local function serve(keys, me, ttl_ms, token, ended, now)
  local now_ms, mine, offers = to_ms(now), nil, {}
  for _ = 1, 64 do
    local first, said, left_ms = first_waiter(keys.queue, keys.waiters, now_ms)
    if not first or kind_in(said) ~= KIND then break end
    local limit, how = string.match(demand_in(said), '(%d*)(.*)')
    local holder, own = first .. how, nil
    if not fits(keys.holders, holder, limit, now_ms) then break end
    leave(keys.queue, keys.waiters, first)
    keys.limit = counted(limit)
    local lasts_ms = holder == me and ttl_ms or math.min(left_ms, OFFER_MS)
    token, own = admit(keys, holder, lasts_ms, token, ended, now)
    if holder == me then mine = own else offers[#offers + 1] = {first, own, said, left_ms} end
  end
  return mine, token, offers
end

-- Writes the record: held until the last lease ends, or free for a minute. Expired holders
-- go with it, or the next lease would last as long as they are kept.
local function settle(keys, token, ended, now_ms)
  local state, expiry_ms, last = 'F' .. NOBODY, free_ms(token), ends_at(keys.holders, now_ms)
  if last then
    state, expiry_ms = 'H' .. (keys.limit or NOBODY), stays_ms(token, last - now_ms, now_ms)
    redis.call('PEXPIRE', keys.holders, last - now_ms)
  end
  local rec = KIND .. state .. token .. flag_for(keys.queue) .. ended
  redis.call('SET', keys.lock, rec, 'PX', expiry_ms)
end

local function tell_all(keys, offers)
  for _, offer in ipairs(offers) do
    tell(keys.wake, keys.queue, keys.waiters, unpack(offer))
  end
end
