--- include/token: the server's clock, and the next fencing token. Goes after include/record.
---
--- A script that may give a token has the key `tokens` as its last. On one server, no token that
--- was ever given is greater than what is stored there, so tokens grow wherever the clock is. On
--- a cluster and on a quorum, nothing is stored under that key: tokens grow with the clock, and as
--- long as the record is there.

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

-- How long a free record stays: for a minute, and until the clock has reached its token.
local function free_ms(token)
  local _, now_us = clock()
  return math.max(GRACE_MS, math.ceil((token + BLOCK - now_us) / 1000))
end

-- The greatest token that was given, and whether it was ahead of the clock when the call began.
local greatest, is_behind
local function read_greatest()
  if greatest then return end
  greatest = redis.call('GET', KEYS[#KEYS]) or NO_TOKEN
  is_behind = greatest >= clock()
end

-- Notes a token before it is given. The key stays for a day after the clock has reached it.
local function note_token(token)
  local tokens = KEYS[#KEYS]
  read_greatest()
  if token <= greatest or string.find(tokens, '{', 1, true) then return end
  if string.sub(greatest, 1, 6) == string.sub(token, 1, 6) then
    redis.call('SETRANGE', tokens, '0', token)
  else
    local _, now_us = clock()
    redis.call('SET', tokens, token, 'PX', TOKENS_MS + math.ceil(math.max(token - now_us, 0) / 1000))
  end
  greatest = token
end

-- The clock's time; or a block above the lock's last token, if that is greater. While the clock is
-- behind the greatest token, a block above that one. As 16 digits and as a number.
local function next_token(last)
  local token, now_us = clock()
  read_greatest()
  local least = math.max(tonumber(last), is_behind and tonumber(greatest) or 0) + BLOCK
  if now_us < least then token = string.format('%.0f', least) end
  note_token(token)
  return token, tonumber(token)
end
