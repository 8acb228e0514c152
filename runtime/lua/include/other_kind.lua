--- include/other_kind: a request meets a lock that is held as another kind. Goes after
--- include/recall and include/recall_clients.

-- Asks clients that keep the lock without using it to release it: once, or with each ask if
-- `repeats`. The answer is then that the request should ask again soon; else, that it is the wrong
-- kind. `keys` as in include/serve.
local function other_kind(keys, rec, repeats)
  local is_told
  if string.sub(rec, 1, 1) == 'M' then
    is_told = recall(keys.lock, rec, keys.wake, repeats)
  else
    is_told = recall_clients(keys, to_ms(clock()), repeats)
  end
  return is_told and {10, math.max(redis.call('PTTL', keys.lock), 0)} or {3}
end
