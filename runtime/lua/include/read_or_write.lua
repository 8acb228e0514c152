--- include/read_or_write: the code that rw/acquire and rw/vote share. Goes after
--- include/ask and include/rule_rw.

-- Returns true if the request or its owner already holds it. They need not queue: all waiters
-- wait for them.
local function may_reenter(keys, holder)
  local now_ms = to_ms(clock())
  return is_live(redis.call('ZSCORE', keys.holders, holder), now_ms) or owns(keys.holders, holder, now_ms)
end

local function read_or_write(keys, holder, ttl_ms, waits)
  local id, live_ms = string.sub(holder, 1, 34), waits_in(waits)
  local refusal, token, flag, ended, nobody = look(keys, id, ttl_ms, waits)
  if refusal then return refusal end
  local now = clock()
  local now_ms = to_ms(now)
  local has_it = is_live(redis.call('ZSCORE', keys.holders, holder), now_ms)
  local owned = not has_it and owns(keys.holders, holder, now_ms)
  if owned and is_writer(holder) and (live_ms > 0 or not is_sole_reader(keys.holders, holder, now_ms)) then
    leave(keys.queue, keys.waiters, id)
    -- Readers that linger release what nobody uses.
    if live_ms == 0 and recall_clients(keys, now_ms) then return {8, free_in(keys.holders, now_ms)} end
    -- With expired holders left in the set, it is not known: ask again.
    return redis.call('ZCOUNT', keys.holders, 0, now_ms) > 0 and {0, 0} or {6}
  elseif has_it or owned or nobody and fits(keys.holders, holder, nil, now_ms) then
    return let_in(keys, holder, ttl_ms, token, nobody and '0' or '1', ended, now)
  elseif nobody and live_ms == 0 then
    return refused(keys, free_in(keys.holders, now_ms), now_ms)
  end
  return line_up(keys, holder, '', ttl_ms, waits, token, flag, ended, now)
end
