--- include/recall: asks a client to release a mutex that it keeps without using it. Goes
--- after include/tell and include/fields.

-- Returns true if the holder's client keeps the mutex, or was told before that others want it.
local function may_recall(rec)
  local mark = string.sub(rec, 88, 88)
  return mark == LINGERS or mark == RECALLED
end

-- Tells the holder's client that another client wants the mutex: once, or with each ask if
-- `repeats`, because the first message may have been lost. Returns whether it told now.
local function recall(lock, rec, wake, repeats)
  local mark = string.sub(rec, 88, 88)
  if mark ~= LINGERS and not (repeats and mark == RECALLED) then return false end
  if mark == LINGERS then redis.call('SETRANGE', lock, 87, RECALLED) end
  local holder = string.sub(rec, 3, 36)
  publish(wake, holder, holder .. 'R' .. lock)
  return true
end
