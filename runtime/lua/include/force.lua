--- include/force: how a lock is taken by force. `keys` has the keys of lock/force_release. Goes
--- after include/tell_forced.

-- The expiry before the entries: a user without the right to PEXPIRE leaves nothing behind.
local function make_room(keys, left_ms)
  redis.call('ZCARD', keys.forced)
  local expiry_ms = math.max(left_ms, redis.call('PTTL', keys.forced))
  redis.call('PEXPIRE', keys.forced, expiry_ms)
  return expiry_ms
end

-- Notes the former holders for as long as their leases would have lasted, and who took the lock;
-- tells these former holders to ask, and the first waiter. Returns how many of those were told.
local function note_forced(keys, taken, held, first, now_ms)
  local ended = redis.call('ZRANGE', keys.forced, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, 64)
  if #ended > 0 then redis.call('ZREM', keys.forced, unpack(ended)) end
  local last = redis.call('ZRANGE', keys.forced, -1, -1, 'WITHSCORES')[2]
  if last then redis.call('PEXPIRE', keys.forced, last - now_ms) end
  -- It decides nothing, so it may fail.
  local note = string.format('%013.0f%d ', now_ms, held) .. keys.said
  if held > 0 then redis.pcall('SET', keys.freed, note, 'PX', keys.keep_ms) end
  local told = tell_forced(keys.wake, taken)
  if first then publish(keys.wake, first, first) end
  return told
end

-- Takes the lock from all its holders.
local function force_all(keys, rec)
  local now, left_ms, held = clock(), redis.call('PTTL', keys.lock), 1
  local now_ms, taken = to_ms(now), {string.sub(rec, 3, 36)}
  -- All that can fail comes first: if a key is not ours, nothing is written.
  local first, flag = first_waiter(keys.queue, keys.waiters, now_ms), flag_for(keys.queue)
  local expiry_ms = make_room(keys, left_ms)
  if string.sub(rec, 1, 1) == 'M' then
    redis.call('ZADD', keys.forced, 'GT', now_ms + left_ms, taken[1])
    redis.call('PEXPIRE', keys.forced, expiry_ms)
  else
    taken = redis.call('ZRANGE', keys.holders, '(' .. now_ms, '+inf', 'BYSCORE', 'LIMIT', 0, 64)
    held = redis.call('ZCOUNT', keys.holders, '(' .. now_ms, '+inf')
    -- A rename takes no longer for many holders. 250 of those who lost it before stay noted.
    local before =
      redis.call('ZRANGE', keys.forced, '+inf', '(' .. now_ms, 'BYSCORE', 'REV', 'LIMIT', 0, 250, 'WITHSCORES')
    -- A rename would delete it at once.
    if held > 0 and redis.call('ZCARD', keys.forced) > 250 then redis.call('UNLINK', keys.forced) end
    if held > 0 then redis.call('RENAME', keys.holders, keys.forced) else redis.call('UNLINK', keys.holders) end
    redis.call('PEXPIRE', keys.forced, expiry_ms)
    for at = 1, #before, 2 do redis.call('ZADD', keys.forced, 'GT', before[at + 1], before[at]) end
  end
  local last_token, _, ended = fields(rec)
  local token = next_token(last_token)
  local free = string.sub(rec, 1, 1) .. 'F' .. NOBODY .. token .. flag .. ended
  redis.call('SET', keys.lock, free, 'PX', free_ms(token))
  return {1, held, tonumber(token), note_forced(keys, taken, held, first, now_ms)}
end
