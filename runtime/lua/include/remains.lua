--- include/remains: a record that is gone while holders are left: somebody deleted it,
--- or the server evicted it. Goes after include/token and include/fields.

-- The record of those who are left, and until when they hold. Its token and the request
-- that ended last went with it; somebody may wait. A mutex leaves nobody.
local function rebuilt(holders)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  local left_ms = last[1] and last[2] - to_ms(clock()) or 0
  if left_ms <= 0 then return nil end
  local kinds = {e = 'E', r = 'R', w = 'R'}
  local kind = kinds[string.sub(last[1], 35, 35)] or 'S'
  return kind .. 'H' .. NOBODY .. NO_TOKEN .. '1' .. NOBODY, left_ms
end

-- Writes it anew, and says what it is; nothing if nobody is left.
local function restored(lock, holders)
  local rec, left_ms = rebuilt(holders)
  if rec then redis.call('SET', lock, rec, 'PX', left_ms) end
  return rec
end
