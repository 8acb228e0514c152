--- include/readers: who may have a read-write lock: readers together, each with a
--- deadline of its own, or one writer. Goes after include/holders.

local KIND = 'R'

local function is_written(holders, now_ms)
  local ends = tonumber(redis.call('ZSCORE', holders, '!'))
  return ends ~= nil and -ends > now_ms
end

-- A writer alone; a reader with others, or beside a writer of the same owner.
local function fits(holders, holder, _, now_ms)
  if not ends_at(holders, now_ms) then return true end
  if is_writer(holder) then return false end
  return not is_written(holders, now_ms) or owns(holders, holder, now_ms)
end

-- Whether all who hold it are readers of this one's owner, so that it may write.
-- Those who ended and are not forgotten yet count as others: else an owner of
-- theirs could come in beside the writer.
local function is_sole_reader(holders, holder, now_ms)
  local own = -tonumber(redis.call('ZSCORE', holders, owner_of(holder)))
  return not is_written(holders, now_ms) and redis.call('ZCOUNT', holders, 0, '+inf') == own
end

-- The lock's fencing token once this one has it, and its own: readers have none.
local function fence(holders, holder, token)
  if not is_writer(holder) then return token, NO_TOKEN end
  if token == NO_TOKEN or not redis.call('ZSCORE', holders, holder) then
    token = next_token(token)
  end
  return token, token
end

-- When a writer may have it: when the last who holds it ends.
local free_in = rest_ms
