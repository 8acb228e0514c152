--- include/prolong: lengthens a key's expiry. `PEXPIRE` can do that itself, with `GT`, from
--- Redis 7.0 on.

-- Lets a key last for at least so long from now. Never shortens its expiry, and never makes a key.
local function prolong(key, lasts_ms)
  local left_ms = redis.call('PTTL', key)
  if left_ms >= 0 and left_ms < tonumber(lasts_ms) then redis.call('PEXPIRE', key, lasts_ms) end
end
