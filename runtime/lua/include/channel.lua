--- include/channel: the channel for hints, without the client's id. The last key says it.

-- On one server all locks share the key `tokens`, and the channel. On a cluster each lock has a
-- channel of its own, in its slot: there the last key is the channel, and nothing is stored.
local function channel()
  local key = KEYS[#KEYS]
  if string.find(key, '{', 1, true) then return key end
  return string.sub(key, 1, -7) .. 'wake:'
end
