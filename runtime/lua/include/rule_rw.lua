--- include/rule_rw: the rule of a read-write lock: many readers, or one writer with
--- readers of its own owner. Goes after include/holders.

local KIND = 'R'

local function is_written(holders, now_ms)
  local ends = tonumber(redis.call('ZSCORE', holders, '!'))
  return ends ~= nil and -ends > now_ms
end

-- A writer is alone. Readers share, and may join a writer of their own owner.
local function fits(holders, holder, _, now_ms)
  if not ends_at(holders, now_ms) then return true end
  if is_writer(holder) then return false end
  return not is_written(holders, now_ms) or owns(holders, holder, now_ms)
end

-- Returns true if all holders are readers of this one's owner, so that it may write. Expired
-- holders that are still in the set count as others: their owner could otherwise come back
-- beside the writer.
local function is_sole_reader(holders, holder, now_ms)
  local own = -tonumber(redis.call('ZSCORE', holders, owner_of(holder)))
  return not is_written(holders, now_ms) and redis.call('ZCOUNT', holders, 0, '+inf') == own
end

-- The lock's fencing token with this holder, and the holder's own: readers have none.
local function fence(holders, holder, token)
  if not is_writer(holder) then return token, NO_TOKEN end
  if token == NO_TOKEN or not redis.call('ZSCORE', holders, holder) then
    token = next_token(token)
  end
  return token, token
end

-- A writer waits until the last lease ends.
local free_in = rest_ms
