--- limits/change: set or unset a limit of an operator, and tell all clients.
---
--- Safe to send twice.
---
--- KEYS
---   1  limits   hash     a field for each limit, and when it was set; docs/keys.md says how
--- ARGV
---   1  field    string   which limit
---   2  value    string   the limit, who sets it, and why, in three lines; empty: it is unset
---   3  keep_ms  integer  how long the limits stay from now
---   4  most     integer  how many there may be
---   5  channel  string   where all clients listen
--- RETURN
---   the fields of the hash, each followed by its value; without the new one if there are too many
--- COST  O(limits), of which there are at most 1000

local limits = KEYS[1]
local field, value, keep_ms, most, channel = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

-- The expiry before the entry: a user without the right to PEXPIRE leaves nothing behind.
local is_there = redis.call('PEXPIRE', limits, keep_ms)
local has_room = redis.call('HEXISTS', limits, field) == 1
  or #redis.call('HGETALL', limits) / 2 < most
if value == '' then
  redis.call('HDEL', limits, field)
elseif has_room then
  local time = redis.call('TIME')
  local now_ms = time[1] .. string.sub(string.format('%06d', time[2]), 1, 3)
  redis.call('HSET', limits, field, now_ms .. ' ' .. value)
end
if is_there == 0 then redis.call('PEXPIRE', limits, keep_ms) end

-- Without the right to publish, clients learn it when they look.
local command = string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
redis.pcall(command, channel, 'limits')
return redis.call('HGETALL', limits)
