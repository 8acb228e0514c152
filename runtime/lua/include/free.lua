--- include/free: a mutex becomes free. Goes after include/token.

local function free(lock, rec, id)
  local token = string.sub(rec, 37, 52)
  redis.call('SET', lock, 'MF' .. NOBODY .. token .. '0' .. id, 'PX', free_ms(token))
end
