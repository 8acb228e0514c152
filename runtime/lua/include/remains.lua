--- include/remains: restores a record that is gone while there are holders: somebody
--- deleted it, or the server evicted it. Goes after include/token and include/fields.

-- A record for the live holders, and how long it stays. The token and the request that
-- ended last are lost; there may be waiters. A mutex has no holders, and is lost.
local function rebuilt(holders)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')
  local left_ms = last[1] and last[2] - to_ms(clock()) or 0
  if left_ms <= 0 then return nil end
  local kinds = {e = 'E', r = 'R', w = 'R'}
  local kind = kinds[string.sub(last[1], 35, 35)] or 'S'
  return kind .. 'H' .. NOBODY .. NO_TOKEN .. '1' .. NOBODY, left_ms
end

-- Writes and returns that record; nothing if there are no live holders.
local function restored(lock, holders)
  local rec, left_ms = rebuilt(holders)
  if rec then redis.call('SET', lock, rec, 'PX', left_ms) end
  return rec
end
