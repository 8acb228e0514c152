--- include/at_once: the short way of mutex/acquire, before all that is needed only
--- where somebody holds the mutex or waits for it: to define that costs the server more
--- than a grant. Goes after include/grant.

-- Grants a mutex that is free and that nobody waits for. Else it does nothing, and
-- says what the record is.
local function grant_at_once(each)
  local lock, holders, queue = unpack(KEYS, 4 * each - 3, 4 * each - 1)
  local id, ttl_ms, _, _, owner = unpack(ARGV, 6 * each - 5, 6 * each - 1)
  local rec = redis.call('GET', lock)
  if not rec then
    -- The record may be gone, and not those who wait, or hold another kind of lock.
    if redis.call('EXISTS', holders, queue) > 0 then return nil end
    return grant(lock, id, owner, NO_TOKEN, '0', NOBODY, ttl_ms)
  end
  local flag, ended = string.sub(rec, 53, 53), string.sub(rec, 54, 87)
  if not string.find(rec, '^[MESR]F') or flag ~= '0' or #rec < 87 or ended == id then return nil, rec end
  return grant(lock, id, owner, string.sub(rec, 37, 52), '0', ended, ttl_ms)
end

local answer, found
if #KEYS == 4 then
  answer, found = grant_at_once(1)
  if answer then return answer end
end
