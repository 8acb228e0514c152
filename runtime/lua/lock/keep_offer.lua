--- lock/keep_offer: let an offer of any lock last until its waiter's heartbeat ends.
---
--- It only lengthens, up to that time of the server's clock, and confirms nothing: safe
--- to send twice, and however late. An offer stays an offer. A confirmed lease is not
--- shortened, and one that ended, or that belongs to another request, is not made anew.
---
--- INCLUDE record token fields waiter queue holder prolong
---
--- KEYS
---   1  lock      string   the record
---   2  holders   zset     holders by deadline
--- ARGV
---   1  holder    string   the request and how it holds
---   2  until_ms  integer  until when its waiter is taken to be alive
--- RETURN
---   1  it lasts until then, or longer
---   0  there is no such offer, or that time has passed
--- COST  O(log holders)

local lock, holders, holder, until_ms = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])

local now_ms = to_ms(clock())
local left_ms = until_ms - now_ms
-- A heartbeat further ahead than any waiter may claim is not believed.
if left_ms <= 0 or left_ms > LIVE_MOST_MS then return 0 end
local rec = redis.call('GET', lock)
if not rec or string.sub(rec, 1, 36) ~= 'MO' .. holder then
  if not is_live(redis.call('ZSCORE', holders, holder), now_ms) then return 0 end
  redis.call('ZADD', holders, 'GT', until_ms, holder)
  if is_writer(holder) then redis.call('ZADD', holders, 'LT', -until_ms, '!') end
  prolong(holders, left_ms)
end
prolong(lock, left_ms)
return 1
