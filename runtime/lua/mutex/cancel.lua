--- mutex/cancel: take an acquisition back, whether it was granted or not.
---
--- Safe to send twice, and before the acquire it takes back: the record
--- remembers the request, and an acquire that comes late is refused.
---
--- INCLUDE record
---
--- KEYS
---   1  lock  string  the record
--- ARGV
---   1  id    string  the request
--- RETURN
---   1  it had been granted, and is released
---   0  it held nothing
--- COST  O(1)

local lock = KEYS[1]
local id = ARGV[1]

local held, token = 0, NO_TOKEN
local rec = redis.call('GET', lock)
if rec then
  if not is_record(rec) then return 0 end
  if string.sub(rec, 1, 36) ~= 'MH' .. id then
    redis.call('SETRANGE', lock, 53, id)
    return 0
  end
  held, token = 1, string.sub(rec, 37, 52)
end
redis.call('SET', lock, 'MF' .. NOBODY .. token .. '0' .. id, 'PX', GRACE_MS)
return held
