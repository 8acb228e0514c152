--- include/tell_forced: tells holders that their lock may have been taken by force.

-- Returns how many of them have a client that heard it.
local function tell_forced(wake, holders)
  local command, told = string.find(wake, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', 0
  for _, holder in ipairs(holders) do
    local message = string.sub(holder, 1, 34) .. 'F'
    local heard = redis.pcall(command, wake .. string.sub(holder, 1, 22), message)
    if type(heard) == 'number' and heard > 0 then told = told + 1 end
  end
  return told
end
