--- include/grant: the request gets the mutex. Goes after include/token.

local function grant(lock, id, owner, last, flag, ended, ttl_ms)
  local token, number = next_token(last)
  redis.call('SET', lock, 'MH' .. id .. token .. flag .. ended .. owner, 'PX', ttl_ms)
  return {1, number}
end
