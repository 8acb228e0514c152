--- lock/force_some: take a lock, of whatever kind, from some of its holders.
---
--- As lock/force_release, but whoever is not named stays. The owner of a reentrant mutex loses all its
--- holds. The fencing token moves on, unless a writer stays that has it.
---
--- INCLUDE record token fields remains waiter queue tell tell_forced force holder holders
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
---   3  only     string   the holders to take it from, each with a zero byte behind it
---   4  wake     string   the channel for hints, without the client's id
--- RETURN
---   {1, held, token, told}  taken from this many, of which so many have heard it; no later token of theirs
---                           or the next is smaller than it
---   {0}                     none of them holds it
---   {3}                     the key holds something that is no lock
--- COST  O(only + log holders + log waiters)

local keys = {
  lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], forced = KEYS[5], freed = KEYS[6],
  said = ARGV[1], keep_ms = ARGV[2], wake = ARGV[4],
}
local only = ARGV[3]

local rec = redis.call('GET', keys.lock) or restored(keys.lock, keys.holders)
if not rec then return {0} end
if not is_record(rec) then return {3} end
local kind, now_ms = string.sub(rec, 1, 1), to_ms(clock())
if string.sub(rec, 2, 2) == 'F' then return {0} end
if kind == 'M' and not string.find(only, string.sub(rec, 3, 36), 1, true) then return {0} end
local taken = {}
for holder in string.gmatch(only, '[^%z]+') do
  if is_live(redis.call('ZSCORE', keys.holders, holder), now_ms) then taken[#taken + 1] = holder end
end
if kind ~= 'M' and #taken == 0 then return {0} end
local stays = redis.call('ZCOUNT', keys.holders, '(' .. now_ms, '+inf') > #taken
if kind == 'M' or kind == 'E' or not stays then return force_all(keys, rec) end
local first = first_waiter(keys.queue, keys.waiters, now_ms)
local expiry_ms = make_room(keys, redis.call('PTTL', keys.lock))
for _, holder in ipairs(taken) do
  redis.call('ZADD', keys.forced, 'GT', redis.call('ZSCORE', keys.holders, holder), holder)
end
redis.call('PEXPIRE', keys.forced, expiry_ms)
for _, holder in ipairs(taken) do take_out(keys.holders, holder) end
local token, writes = fields(rec), redis.call('ZSCORE', keys.holders, '!')
if not writes or -writes <= now_ms then
  token = next_token(token)
  redis.call('SETRANGE', keys.lock, 36, token)
end
return {1, #taken, tonumber(token), note_forced(keys, taken, #taken, first, now_ms)}
