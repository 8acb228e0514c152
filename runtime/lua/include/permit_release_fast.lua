--- include/permit_release_fast: the uncontended path of semaphore/release. It stands before
--- all other functions: defining those costs the server more than a release. Goes after
--- include/token.

-- Ends a live permit of weight 1 without an owner, if nobody waits. Otherwise does nothing.
local function permit_release_fast(each)
  local lock, holders, id = KEYS[4 * each - 3], KEYS[4 * each - 2], ARGV[2 * each - 1]
  local rec = #id == 34 and redis.call('GET', lock)
  if not rec or not string.find(rec, '^SH') or #rec < 87 or string.sub(rec, 53, 53) ~= '0' then return nil end
  -- A token ahead of the clock has to stay until the clock reaches it.
  if string.sub(rec, 37, 52) > clock() then return nil end
  local now_ms = tonumber(string.sub(clock(), 1, 13))
  local deadline_ms = redis.call('ZSCORE', holders, id)
  if not deadline_ms or tonumber(deadline_ms) <= now_ms then return nil end
  redis.call('ZREM', holders, id, '^' .. id)
  -- Held until the last lease ends. If there is no live one, the set is deleted.
  local state, expiry_ms, last = 'F' .. NOBODY, GRACE_MS, redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if last then
    local left_ms = math.max(last - now_ms, 0)
    if left_ms > 0 then state, expiry_ms = string.sub(rec, 2, 36), left_ms end
    redis.call('PEXPIRE', holders, left_ms)
  end
  redis.call('SET', lock, 'S' .. state .. string.sub(rec, 37, 52) .. '0' .. id, 'PX', expiry_ms)
  return 1
end

if #KEYS == 4 then
  local answer = permit_release_fast(1)
  if answer then return answer end
end
