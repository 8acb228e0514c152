--- include/raise: what the mends of all kinds have in common. Goes after include/token
--- and include/fields.

-- Whether nobody has it, and this request did not end here.
local function is_to_be_had(rec, id)
  return is_record(rec) and string.sub(rec, 2, 2) == 'F' and string.sub(rec, 54, 87) ~= id
end

-- By how much the clock may be behind a token that comes from another server; and behind
-- its own, if it was set back since.
local BEHIND_US, OWN_BEHIND_US = 100000, 200000

-- The greater of a record's token and another (0: none is given), as 16 digits; or why it
-- is not taken. When the record ends, the token goes with it: the clock must be there by
-- then, also if what comes next lasts as short as it may. A token that the clock is further
-- behind is of a clock that was wrong: it goes on from there, or the clock's own takes its
-- place.
local function raised(last, token, lasts_ms)
  if token == '0' then return last end
  local now, from_us = clock()
  if last + BLOCK > from_us + OWN_BEHIND_US then
    if tonumber(token) < tonumber(last) then last = now else from_us = last end
  end
  if tonumber(token) <= tonumber(last) then return last end
  local behind_us = token + BLOCK - from_us - math.min(lasts_ms * 1000, BEHIND_US)
  if behind_us > 0 then return nil, {2, math.ceil(behind_us / 1000)} end
  return string.format('%016.0f', token)
end

-- Raises the token of a record that is held, and says what it is.
local function raise(lock, rec, token)
  local last = string.sub(rec, 37, 52)
  local own, refusal = raised(last, token, redis.call('PTTL', lock))
  if refusal then return refusal end
  if own ~= last then redis.call('SETRANGE', lock, 36, own) end
  return {1, tonumber(own)}
end
