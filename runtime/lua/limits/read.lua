--- limits/read: the limits that operators have set.
---
--- Lets them stay for another year: they outlive the processes that they are for.
---
--- KEYS
---   1  limits  hash     see limits/change
--- ARGV
---   1  keep_ms  integer  how long the limits stay from now
--- RETURN
---   the fields of the hash, each followed by its value
--- COST  O(limits), of which there are at most 1000

local limits, keep_ms = KEYS[1], ARGV[1]

redis.call('PEXPIRE', limits, keep_ms)
return redis.call('HGETALL', limits)
