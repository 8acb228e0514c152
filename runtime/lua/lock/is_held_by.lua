--- lock/is_held_by: say whether an owner has a lock, of whatever kind.
---
--- Safe to send twice. Forgets holders who ended.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE holders
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holder by deadline
--- ARGV
---   1  owner    string  `@` and the owner's name
--- RETURN
---   1  the owner has it
---   0  he has not
---   2  not known yet: there are more holders who ended; ask again
---   3  what has the name is no lock
--- COST  O(log holders)

local lock, holders = KEYS[1], KEYS[2]
local owner = ARGV[1]

local rec = redis.call('GET', lock)
if rec and not is_record(rec) then return 3 end
if rec and string.sub(rec, 1, 1) == 'M' then
  return string.find(rec, '^M[HO]') and string.sub(rec, 88) == owner and 1 or 0
end
if purge(holders, to_ms(clock())) == 64 then return 2 end
return redis.call('ZSCORE', holders, owner) and 1 or 0
