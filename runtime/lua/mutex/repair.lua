--- mutex/repair: raise a lease's fencing token, or give back a lease that was lost here.
---
--- For a member of a quorum, when a majority says that the request holds the lock: no later
--- grant of any majority may have a smaller token. Safe to send twice. Another request's
--- lease is not touched, and a released one stays ended.
---
--- INCLUDE record token fields remains raise_token
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     holders of another kind of lock, by deadline
--- ARGV
---   1  id        string   the request
---   2  token     integer  its token on all servers together; 0: only ask for this server's
---   3  lasts_ms  integer  how long the lease lasts if it was lost here; 0: it stays lost
---   4  owner     string   `@` and the owner's name, or empty
--- RETURN
---   {1, token}   it holds the mutex here, with this token
---   {0}          it does not
---   {2, ms}      the clock is too far behind the token, by this much more than allowed
--- COST  O(1)

local lock, holders, id, token, lasts_ms, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local rec = redis.call('GET', lock) or restored(lock, holders)
if rec and string.sub(rec, 1, 36) == 'MH' .. id then return raise_token(lock, rec, token) end
if lasts_ms == 0 or rec and not is_available(rec, id) then return {0} end
local last, flag, ended = NO_TOKEN, '0', NOBODY
if rec then last, flag, ended = fields(rec) end
local own, refusal = raised(last, token, lasts_ms)
if refusal then return refusal end
redis.call('SET', lock, 'MH' .. id .. own .. flag .. ended .. owner, 'PX', lasts_ms)
return {1, tonumber(own)}
