--- mutex/adopt: a request takes the place of the one that holds the mutex.
---
--- Safe to send twice: a request that has adopted it gets the same token, and its TTL
--- starts anew. A request that was released or cancelled gets nothing. The former request
--- counts as ended, and its later commands are refused. If the mutex was granted to that
--- request anew, by a late copy of its acquire, nobody adopts it.
---
--- INCLUDE record token grant fields
---
--- KEYS
---   1  lock    string   the record
---   2  tokens  string   no token that was given is greater
--- ARGV
---   1  id      string   the request that adopts
---   2  from    string   the request that holds it
---   3  ttl_ms  integer  how long the lease lasts from now
---   4  most    integer  the greatest token that the record of the lease can have
--- RETURN
---   {1, token}  adopted
---   {0}         expired: nobody has it
---   {2}         taken: another request has it, or had it since
--- COST  O(1)

local lock, id, from, ttl_ms, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local rec = redis.call('GET', lock)
if not rec then return {0} end
local last, flag, ended = fields(rec)
if holds(rec, id) then
  redis.call('SET', lock, 'MH' .. string.sub(rec, 3), 'PX', ttl_ms)
  return {1, tonumber(last)}
elseif ended ~= id and holds(rec, from) and tonumber(last) <= most then
  return grant(lock, id, owner_in(rec), last, flag, from, ttl_ms)
end
return {2}
