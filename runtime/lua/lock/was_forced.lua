--- lock/was_forced: looks whether a lock was taken from a holder by force.
---
--- Changes nothing. Known until the lease would have ended.
---
--- KEYS
---   1  forced  zset    the holders it was taken from, by deadline
--- ARGV
---   1  holder  string  the request, and how it held
--- RETURN
---   1  it was
---   0  it was not, or its lease would have ended by now
--- COST  O(1)

local forced, holder = KEYS[1], ARGV[1]

return redis.call('ZSCORE', forced, holder) and 1 or 0
