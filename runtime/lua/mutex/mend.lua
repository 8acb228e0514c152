--- mutex/mend: raise a lease's fencing token, or give back a lease that was lost here.
---
--- For a server that is one of several, where a majority of them says that the request
--- holds the mutex: no later grant of any majority may have a smaller token. Safe to
--- send twice. What another holds is not touched, and what was released stays so.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE raise
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     who holds another kind of lock, by deadline
--- ARGV
---   1  id        string   the request
---   2  token     integer  its token, for all servers together; 0 if only this one's is asked
---   3  lasts_ms  integer  how long the lease lasts if it was lost here; 0: it stays lost
---   4  owner     string   `@` and the owner's name, or nothing
--- RETURN
---   {1, token}   it holds the mutex here, with this token
---   {0}          it does not
---   {2, ms}      the clock is behind the token, by so much more than it may be
--- COST  O(1)

local lock, holders, id, token, lasts_ms, owner = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local rec = redis.call('GET', lock) or restored(lock, holders)
if rec and string.sub(rec, 1, 36) == 'MH' .. id then return raise(lock, rec, token) end
if lasts_ms == 0 or rec and not is_to_be_had(rec, id) then return {0} end
local last, flag, ended = NO_TOKEN, '0', NOBODY
if rec then last, flag, ended = fields(rec) end
local own, refusal = raised(last, token, lasts_ms)
if refusal then return refusal end
redis.call('SET', lock, 'MH' .. id .. own .. flag .. ended .. owner, 'PX', lasts_ms)
return {1, tonumber(own)}
