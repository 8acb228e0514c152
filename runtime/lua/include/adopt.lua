--- include/adopt: a request takes the place of one of several holders. Goes after one of
--- include/rule_semaphore, include/rule_reentrant and include/rule_rw.

-- Puts it in the holder's place for its whole TTL from now. The holder counts as ended.
local function adopt(lock, holders, holder, from, ttl_ms)
  local rec, now = redis.call('GET', lock) or restored(lock, holders), clock()
  if not rec then return {0} end
  if not is_record(rec) or is_other(rec, KIND) then return {2} end
  local token, flag, ended = fields(rec)
  local now_ms, own = to_ms(now), nil
  if not is_live(redis.call('ZSCORE', holders, holder), now_ms) then
    local from_id = string.sub(from, 1, 34)
    if ended == string.sub(holder, 1, 34) then return {2} end
    if not is_live(redis.call('ZSCORE', holders, from), now_ms) then
      return {ended == from_id and 2 or 0}
    end
    take_out(holders, from)
    ended = from_id
  end
  token, own = fence(holders, holder, token, now)
  put_in(holders, holder, ttl_ms, now_ms, function(lasts_ms)
    local written = KIND .. 'H' .. string.sub(rec, 3, 36) .. token .. flag .. ended
    redis.call('SET', lock, written, 'PX', stays_ms(token, lasts_ms, now_ms))
  end)
  -- The former lease may have been the last to end.
  local expiry_ms = rest_ms(holders, now_ms)
  redis.call('PEXPIRE', holders, expiry_ms)
  redis.call('PEXPIRE', lock, stays_ms(token, expiry_ms, now_ms))
  return {1, tonumber(own)}
end
