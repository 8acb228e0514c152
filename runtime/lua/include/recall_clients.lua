--- include/recall_clients: asks clients to release leases of a lock with several holders that
--- they keep without using them. Goes after include/tell and include/holders.
---
--- A mark is `~` and a client that may keep a lease, or `!` and one that was asked to release
--- it. Its score is -MARKS less the time until which it counts.

-- Notes that this holder's client may keep a lease without using it. The mark covers all leases
-- of the client: it stays until the last of them ends.
local function mark_client(holders, holder, until_ms, now_ms)
  local client, score = string.sub(holder, 1, 22), -(MARKS + until_ms)
  for _, mark in ipairs({LINGERS .. client, RECALLED .. client}) do
    score = math.min(score, tonumber(redis.call('ZSCORE', holders, mark)) or 0)
  end
  redis.call('ZREM', holders, RECALLED .. client)
  redis.call('ZADD', holders, score, LINGERS .. client)
  -- Those of clients that are gone would pile up where nobody asks for a recall.
  redis.call('ZREMRANGEBYSCORE', holders, -(MARKS + now_ms), -MARKS)
end

-- Returns true if this holder's client was asked to release what it keeps, and has not said since
-- that it keeps something.
local function is_recalled(holders, holder, now_ms)
  local score = redis.call('ZSCORE', holders, RECALLED .. string.sub(holder, 1, 22))
  return score and -score - MARKS > now_ms
end

-- Tells each marked client that another client wants the lock: once, or with each ask if
-- `repeats`, because the first message may have been lost. Returns whether it told one now.
local function recall_clients(keys, now_ms, repeats)
  local marks = redis.call('ZRANGE', keys.holders, '-inf', -MARKS, 'BYSCORE', 'WITHSCORES')
  local is_told = false
  for each = 1, #marks, 2 do
    local mark, client = string.sub(marks[each], 1, 1), string.sub(marks[each], 2)
    if -marks[each + 1] - MARKS <= now_ms then
      redis.call('ZREM', keys.holders, marks[each])
    elseif mark == LINGERS or repeats then
      redis.call('ZREM', keys.holders, marks[each])
      redis.call('ZADD', keys.holders, marks[each + 1], RECALLED .. client)
      publish(keys.wake, client, client .. '000000000000R' .. keys.lock)
      is_told = true
    end
  end
  return is_told
end
