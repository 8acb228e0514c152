--- include/token: the server's clock, and the next fencing token. Goes after include/record.
---
--- A script that may give a token to a lock without one has the key `tokens` as its last.

-- The server's clock in microseconds, as 16 digits and as a number. Read once a call.
local read, read_us
local function clock()
  if not read then
    local time = redis.call('TIME')
    read = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
    read_us = tonumber(read)
  end
  return read, read_us
end

-- No token of a record that was deleted is greater. Read once a call.
local deleted
local function last_deleted()
  deleted = deleted or tonumber(redis.call('GET', KEYS[#KEYS]) or 0) or 0
  return deleted
end

-- The clock's time; but if the clock is not there yet, a block above the lock's last token, or
-- above all tokens of deleted records if it has none. As 16 digits and as a number.
local function next_token(last)
  local now, now_us = clock()
  local least = last == NO_TOKEN and last_deleted() + 1 or tonumber(last) + BLOCK
  if now_us >= least then return now, now_us end
  return string.format('%.0f', least), least
end
