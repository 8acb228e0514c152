--- include/permit_acquire_fast: the uncontended path of semaphore/acquire. It stands before
--- all other functions: defining those costs the server more than a grant. Goes after
--- include/token.

-- Grants a permit of weight 1 without an owner, if nobody waits and there is room without
-- removing expired holders. Otherwise does nothing.
local function permit_acquire_fast(each)
  local lock, holders, queue = unpack(KEYS, 4 * each - 3, 4 * each - 1)
  local id, ttl_ms, limit = unpack(ARGV, 5 * each - 4, 5 * each - 2)
  if #id > 34 then return nil end
  local rec, token, ended = redis.call('GET', lock), NO_TOKEN, NOBODY
  if rec then
    token, ended = string.sub(rec, 37, 52), string.sub(rec, 54, 87)
    if not string.find(rec, '^S[HF]') or #rec < 87 then return nil end
    if string.sub(rec, 53, 53) ~= '0' or ended == id then return nil end
    -- A token ahead of the clock has to stay until the clock reaches it.
    if token ~= NO_TOKEN and token > clock() then return nil end
  elseif redis.call('EXISTS', holders, queue) > 0 then
    return nil
  end
  -- ZCARD also counts the members that are no holders. A repeated request only gets a new
  -- deadline.
  local count = redis.call('ZCARD', holders)
  if count > 0 then
    if redis.call('ZCOUNT', holders, 0, '+inf') >= tonumber(limit) then return nil end
    if redis.call('ZSCORE', holders, '+') then return nil end
  end
  local expiry_ms, now_ms = ttl_ms, string.sub(clock(), 1, 13)
  -- The expiry before the member: a user without the right to PEXPIRE leaves nothing behind.
  if count > 0 then expiry_ms = math.max(redis.call('PTTL', holders), tonumber(ttl_ms)) end
  local is_there = redis.call('PEXPIRE', holders, expiry_ms) == 1
  if redis.call('ZADD', holders, now_ms + ttl_ms, id) == 1 then
    redis.call('ZADD', holders, -now_ms, '^' .. id)
  end
  if not is_there then redis.call('PEXPIRE', holders, expiry_ms) end
  redis.call('SET', lock, 'SH' .. string.sub(NOBODY .. limit, -34) .. token .. '0' .. ended, 'PX', expiry_ms)
  return {1, 0}
end

if #KEYS == 4 then
  local answer = permit_acquire_fast(1)
  if answer then return answer end
end
