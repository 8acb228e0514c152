--- include/raise: what the mends of all kinds have in common. Goes after include/token
--- and include/fields.

-- The greater of a record's token and a number, as 16 digits.
local function at_least(last, token)
  if tonumber(token) <= tonumber(last) then return last end
  return string.format('%016.0f', token)
end

-- Whether nobody has it, and this request did not end here.
local function is_to_be_had(rec, id)
  return is_record(rec) and string.sub(rec, 2, 2) == 'F' and string.sub(rec, 54, 87) ~= id
end

-- By how much the clock may be behind a token.
local BEHIND_MS = 100

-- Raises the token of a record that is held. When the record ends, the token goes with
-- it: the clock must be there by then, also if what comes next lasts as short as it may.
local function raise(lock, rec, token)
  local last = string.sub(rec, 37, 52)
  local own = at_least(last, token)
  if own == last then return {1, tonumber(own)} end
  local _, now_us = clock()
  local lasts_ms = math.min(redis.call('PTTL', lock), BEHIND_MS)
  local behind_us = tonumber(own) + BLOCK - now_us - lasts_ms * 1000
  if behind_us > 0 then return {2, math.ceil(behind_us / 1000)} end
  redis.call('SETRANGE', lock, 36, own)
  return {1, tonumber(own)}
end
