--- mutex/acquire_all: take several mutexes, if all are free and nobody waits for one.
---
--- All or none, and never queued: a caller that waits takes them one after another. Safe
--- to send twice: requests that hold their mutexes get the same tokens, and their TTLs
--- start anew.
---
--- INCLUDE record token grant fields
---
--- KEYS, for each mutex
---   1  lock     string  the record
---   2  holders  zset    holders of another kind of lock, by deadline
---   3  queue    zset    request ids by position
--- ARGV, followed by the request of each mutex
---   1  ttl_ms  integer  how long the leases last
--- RETURN
---   tokens, one for each mutex  granted
---   {0, nth}                  the first mutex that is not free
--- COST  O(mutexes)

local ttl_ms = ARGV[1]

local taken = {}
for each = 1, #KEYS / 3 do
  local lock, holders, queue = unpack(KEYS, 3 * each - 2, 3 * each)
  local id = ARGV[1 + each]
  local rec, last, ended, flag, is_held = redis.call('GET', lock), NO_TOKEN, NOBODY, nil, false
  if rec then
    if not is_record(rec) or is_other(rec, 'M') then return {0, each} end
    last, flag, ended = fields(rec)
    is_held = holds(rec, id)
    if ended == id or not is_held and string.sub(rec, 2, 2) ~= 'F' then return {0, each} end
    if not is_held and flag ~= '0' then return {0, each} end
  elseif redis.call('EXISTS', holders, queue) > 0 then
    return {0, each}
  end
  taken[each] = {lock = lock, id = id, rec = is_held and rec, last = last, ended = ended}
end
local tokens = {}
for each, mutex in ipairs(taken) do
  if mutex.rec then
    redis.call('SET', mutex.lock, 'MH' .. string.sub(mutex.rec, 3), 'PX', ttl_ms)
    tokens[each] = tonumber(mutex.last)
  else
    tokens[each] = grant(mutex.lock, mutex.id, '', mutex.last, '0', mutex.ended, ttl_ms)[2]
  end
end
return tokens
