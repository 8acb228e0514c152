--- rw/vote: read or write, on a server that is one of several.
---
--- There is no queue on several servers: each would have an order of its own. In its
--- place a writer who is refused, and comes again, leaves a mark, and as long as that
--- lasts those who come to read are refused: or readers would keep him out for ever.
--- Else as rw/acquire.
---
--- INCLUDE record
--- INCLUDE token
--- INCLUDE fields
--- INCLUDE remains
--- INCLUDE queue
--- INCLUDE tell
--- INCLUDE holders
--- INCLUDE readers
--- INCLUDE serve
--- INCLUDE ask
--- INCLUDE read_or_write
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     holder by deadline
---   3  queue     zset     request id by ticket
---   4  waiters   hash     request id to what it said last
---   5  intent    string   the client of a writer who was refused
--- ARGV
---   1  holder    string   the request, and how it holds
---   2  ttl_ms    integer  how long the lease lasts
---   3  again_ms  integer  within how long a writer who is refused comes again; 0: never
--- RETURN
---   {1, token}    granted; 0 for a reader
---   {0, left_ms}  busy: the last who has it ends in this long at the latest; 0: ask again at once
---   {2}           ended: this request was released or cancelled before
---   {3}           wrong kind: the name is in use, or waited for, as another kind of lock
---   {4, ttl_ms}   busy with a string that is not ours and had no expiry: it was given the TTL
---   {6}           would deadlock: its owner has it, and would wait for himself
--- COST  O(log holders)

local keys = {lock = KEYS[1], holders = KEYS[2], queue = KEYS[3], waiters = KEYS[4], wake = ''}
local intent, holder, ttl_ms, again_ms = KEYS[5], ARGV[1], tonumber(ARGV[2]), ARGV[3]

local client, marked = string.sub(holder, 1, 22), redis.call('GET', intent)
if marked and not is_writer(holder) and not may_return(keys, holder) then
  return {0, redis.call('PTTL', intent)}
end
local answer = read_or_write(keys, holder, ttl_ms, 0, '0')
if answer[1] == 0 and is_writer(holder) and again_ms ~= '0' then
  redis.call('SET', intent, client, 'PX', again_ms)
elseif answer[1] == 1 and marked == client and is_writer(holder) then
  redis.call('UNLINK', intent)
end
return answer
