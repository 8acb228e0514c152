--- lock/is_held_by: looks for an owner among the holders of a lock, of any kind.
---
--- Safe to send twice. Removes expired holders.
---
--- INCLUDE record token fields holder holders
---
--- KEYS
---   1  lock     string  the record
---   2  holders  zset    holders by deadline
--- ARGV
---   1  owner    string  `@` and the owner's name
--- RETURN
---   1  the owner holds it
---   0  it does not
---   2  not known yet: there are more expired holders; ask again
---   3  the key holds something that is no lock
--- COST  O(log holders)

local lock, holders = KEYS[1], KEYS[2]
local owner = ARGV[1]

local rec = redis.call('GET', lock)
if rec and not is_record(rec) then return 3 end
if rec and string.sub(rec, 1, 1) == 'M' then
  return string.find(rec, '^M[HO]') and string.match(owner_in(rec), '^[^\n]*') == owner and 1 or 0
end
if purge(holders, to_ms(clock())) == 64 then return 2 end
return redis.call('ZSCORE', holders, owner) and 1 or 0
