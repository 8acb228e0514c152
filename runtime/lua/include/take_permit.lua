--- include/take_permit: takes a semaphore's permit together with other locks, in two steps.
--- Goes after include/rule_semaphore.

-- Returns what `take_permit` needs, if there is room and nobody waits, or if this request has
-- its permit already. Otherwise returns nothing.
local function free_permit(lock, holders, queue, holder, limit)
  local rec, token, flag, ended = redis.call('GET', lock), NO_TOKEN, '0', NOBODY
  local now_ms, has_it = to_ms(clock()), false
  if rec then
    if not is_record(rec) or is_other(rec, KIND) then return nil end
    token, flag, ended = fields(rec)
    if ended == string.sub(holder, 1, 34) then return nil end
    has_it = is_live(redis.call('ZSCORE', holders, holder), now_ms)
  elseif redis.call('EXISTS', holders, queue) > 0 then
    return nil
  end
  if not has_it and (flag ~= '0' or not fits(holders, holder, limit, now_ms)) then return nil end
  return {lock = lock, holders = holders, holder = holder, limit = limit, token = token, flag = flag,
    ended = ended}
end

local function take_permit(permit, ttl_ms)
  local now_ms = to_ms(clock())
  put_in(permit.holders, permit.holder, ttl_ms, now_ms, function(lasts_ms)
    local rec = KIND .. 'H' .. counted(permit.limit) .. permit.token .. permit.flag .. permit.ended
    redis.call('SET', permit.lock, rec, 'PX', stays_ms(permit.token, lasts_ms, now_ms))
  end)
end
