--- include/owner: when an owner may have a reentrant mutex. All who hold it are one
--- owner's, each with a deadline of its own. Goes after include/holders.

local KIND = 'E'

local function fits(holders, holder, _, now_ms)
  return not ends_at(holders, now_ms) or owns(holders, holder, now_ms)
end

-- The lock's fencing token once this one has it, and its own: the owner keeps his,
-- unless the record was deleted, and his token with it.
local function fence(holders, _, token, now)
  if token == NO_TOKEN or not ends_at(holders, to_ms(now)) then token = next_token(token) end
  return token, token
end

-- When others may have it: when the owner's last hold ends.
local free_in = rest_ms
