--- mutex/renew: let a lease run for its whole TTL from now.
---
--- Safe to send twice. The first renewal of an offer makes it a lease; otherwise only the
--- expiry changes. A lease that ended stays ended.
---
--- INCLUDE for_each
---
--- KEYS, for each request
---   1  lock    string   the record
--- ARGV, for each request
---   1  id      string   the request
---   2  ttl_ms  integer  how long the lease lasts from now
--- RETURN, for several requests an array of
---   1  renewed
---   0  expired: nobody has it
---   2  taken: another request has it, or had it since
--- COST  O(1)

local function renew(each)
  local lock, id, ttl_ms = KEYS[each], ARGV[2 * each - 1], ARGV[2 * each]

  local rec = redis.call('GET', lock)
  if not rec then return 0 end
  local holder = string.sub(rec, 1, 36)
  if holder == 'MH' .. id then
    redis.call('PEXPIRE', lock, ttl_ms)
  elseif holder == 'MO' .. id then
    redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
  else
    return 2
  end
  return 1
end

if #KEYS == 1 then return renew(1) end
return for_each(#KEYS, renew)
