--- include/raise_token: the code that the repairs of all kinds share. Goes after
--- include/token and include/fields.

-- Returns true if nobody holds it, and this request did not end here.
local function is_available(rec, id)
  return is_record(rec) and string.sub(rec, 2, 2) == 'F' and string.sub(rec, 54, 87) ~= id
end

-- How far the clock may be behind a token of another server; and behind its own token,
-- before it counts as set back.
local BEHIND_US, OWN_BEHIND_US = 100000, 200000

-- The record's token, raised to `token` at least (0: as it is), as 16 digits; or a refusal.
-- The token is lost when the record expires, so the clock must reach it by then, even if
-- the next lease is as short as allowed. A record's token far ahead of the clock came from a
-- clock that was wrong. Told a smaller one, the record takes it, or the clock's time if that
-- is greater. A greater one is measured from the record's.
local function raised(last, token, lasts_ms)
  if token == '0' then return last end
  local now, from_us = clock()
  if last + BLOCK > from_us + OWN_BEHIND_US then
    if tonumber(token) >= tonumber(last) then from_us = last
    elseif now > token then last = now
    else last = string.format('%016.0f', token) end
  end
  if tonumber(token) <= tonumber(last) then return last end
  local behind_us = token + BLOCK - from_us - math.min(lasts_ms * 1000, BEHIND_US)
  if behind_us > 0 then return nil, {2, math.ceil(behind_us / 1000)} end
  return string.format('%016.0f', token)
end

-- Raises the token of a held record, and returns it.
local function raise_token(lock, rec, token)
  local last = string.sub(rec, 37, 52)
  local own, refusal = raised(last, token, redis.call('PTTL', lock))
  if refusal then return refusal end
  if own ~= last then redis.call('SETRANGE', lock, 36, own) end
  return {1, tonumber(own)}
end
