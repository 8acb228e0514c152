--- include/acquire_fast: the uncontended path of mutex/acquire. It stands before all other
--- functions: defining those costs the server more than a grant. Goes after include/grant.

-- Grants a mutex that is free and has no waiters. Otherwise does nothing, and returns the
-- record.
local function grant_fast(each)
  local lock, holders, queue = unpack(KEYS, 4 * each - 3, 4 * each - 1)
  local id, ttl_ms, _, _, owner = unpack(ARGV, 6 * each - 5, 6 * each - 1)
  local rec = redis.call('GET', lock)
  if not rec then
    -- Without a record, there may still be waiters, or holders of another kind of lock.
    if redis.call('EXISTS', holders, queue) > 0 then return nil end
    return grant(lock, id, owner, NO_TOKEN, '0', NOBODY, ttl_ms)
  end
  local flag, ended = string.sub(rec, 53, 53), string.sub(rec, 54, 87)
  if not string.find(rec, '^[MESR]F') or flag ~= '0' or #rec < 87 or ended == id then return nil, rec end
  return grant(lock, id, owner, string.sub(rec, 37, 52), '0', ended, ttl_ms)
end

local answer, found
if #KEYS == 4 then
  answer, found = grant_fast(1)
  if answer then return answer end
end
