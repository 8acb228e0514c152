--- include/rule_reentrant: the rule of a reentrant mutex. All holds belong to one owner,
--- each with its own deadline. Goes after include/holders.

local KIND = 'E'

local function fits(holders, holder, _, now_ms)
  return not ends_at(holders, now_ms) or owns(holders, holder, now_ms)
end

-- The lock's fencing token with this holder, and the holder's own. An owner's holds share
-- one, unless the record was deleted with it.
local function fence(holders, _, token, now)
  if token == NO_TOKEN or not ends_at(holders, to_ms(now)) then token = next_token(token) end
  return token, token
end

-- Other owners wait until the last hold ends.
local free_in = rest_ms
