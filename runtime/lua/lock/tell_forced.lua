--- lock/tell_forced: tell the holders from which a lock was taken by force to ask, some at a time.
---
--- INCLUDE tell_forced
---
--- KEYS
---   1  forced  zset     the holders it was taken from, by deadline
--- ARGV
---   1  from    integer  how many were told before
---   2  most    integer  how many are told now
---   3  wake    string   the channel for hints, without the client's id
--- RETURN
---   {count, told}  how many holders it has seen, and how many of their clients heard it
--- COST  O(log holders + most)

local forced, from, most, wake = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

-- What has a score below 0 is no holder. By rank, the last ones are found as soon as the first.
local first = redis.call('ZCOUNT', forced, '-inf', 0) + from
local holders = redis.call('ZRANGE', forced, first, first + most - 1)
return {#holders, tell_forced(wake, holders)}
