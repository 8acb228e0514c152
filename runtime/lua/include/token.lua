--- include/token: the server's clock, and the next fencing token. Goes after
--- include/record.

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

-- The clock's time; or a block above the last token, if the clock is not there yet. As 16
-- digits and as a number.
local function next_token(last)
  local now, now_us = clock()
  local least = tonumber(last) + BLOCK
  if now_us >= least then return now, now_us end
  return string.format('%.0f', least), least
end
