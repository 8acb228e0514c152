--- lock/force_release: take a lock, of whatever kind, from all its holders.
---
--- Safe to send twice: the second finds it free, or held by the next request. The fencing token
--- moves on. A former holder can ask whether the lock was forced, and the first 64 are told to;
--- lock/tell_forced tells the others. The first waiter is told to ask, and is served then.
---
--- INCLUDE record token fields remains waiter queue tell tell_forced force
---
--- KEYS
---   1  lock     string   the record
---   2  holders  zset     holders by deadline
---   3  queue    zset     request ids by position
---   4  waiters  hash     each waiter's last ask
---   5  forced   zset     the holders it was taken from, by deadline
---   6  freed    string   when and from how many it was last taken; then `said`; see docs/keys.md
---   7  tokens   string   no token that was given is greater
--- ARGV
---   1  said     string   who takes it, a line's end, and why
---   2  keep_ms  integer  how long that is remembered
---   3  wake     string   the channel for hints, without the client's id
--- RETURN
---   {1, held, token, told}  taken from this many, of which so many have heard it; all later tokens are
---                           greater than this one
---   {0}                     nobody holds it
---   {3}                     the key holds something that is no lock
--- COST  O(log holders + log waiters)

local keys = {
  lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], forced = KEYS[5], freed = KEYS[6],
  said = ARGV[1], keep_ms = ARGV[2], wake = ARGV[3],
}

local rec = redis.call('GET', keys.lock) or restored(keys.lock, keys.holders)
if not rec then return {0} end
if not is_record(rec) then return {3} end
if string.sub(rec, 2, 2) == 'F' then return {0} end
return force_all(keys, rec)
