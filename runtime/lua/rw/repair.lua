--- rw/repair: raise a writer's fencing token, or give back a lease that was lost here.
---
--- For a member of a quorum, when a majority says that the request holds the lock: no later
--- grant of any majority may have a smaller token. Safe to send twice. Another request's
--- lease is not touched, and a released one stays ended.
---
--- INCLUDE record token fields remains holder holders rule_rw raise_token
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     holders by deadline
--- ARGV
---   1  holder    string   the request and how it holds
---   2  token     integer  its token on all servers together; 0: only ask for this server's
---   3  lasts_ms  integer  how long the lease lasts if it was lost here; 0: it stays lost
--- RETURN
---   {1, token}   it holds the lock here, and this is the lock's token
---   {0}          it does not
---   {2, ms}      the clock is too far behind the token, by this much more than allowed
--- COST  O(log holders)

local lock, holders, holder, token, lasts_ms = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])

local rec, now_ms = redis.call('GET', lock) or restored(lock, holders), to_ms(clock())
if rec and (not is_record(rec) or is_other(rec, KIND)) then return {0} end
if rec and is_live(redis.call('ZSCORE', holders, holder), now_ms) then return raise_token(lock, rec, token) end
local last, flag, ended = NO_TOKEN, '0', NOBODY
if rec then last, flag, ended = fields(rec) end
if lasts_ms == 0 or ended == string.sub(holder, 1, 34) or not fits(holders, holder, nil, now_ms) then
  return {0}
end
local own, refusal = raised(last, token, lasts_ms)
if refusal then return refusal end
put_in(holders, holder, lasts_ms, now_ms, function(expiry_ms)
  redis.call('SET', lock, KIND .. 'H' .. NOBODY .. own .. flag .. ended, 'PX', stays_ms(own, expiry_ms, now_ms))
end)
return {1, tonumber(own)}
