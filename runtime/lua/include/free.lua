--- include/free: a mutex becomes free. Goes after include/record.

local function free(lock, rec, id)
  redis.call('SET', lock, 'MF' .. NOBODY .. string.sub(rec, 37, 52) .. '0' .. id, 'PX', GRACE_MS)
end
