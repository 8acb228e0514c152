--- include/queued: when a waiter asks again. Goes after include/queue.

local SPREAD_MS = 100

-- How many other clients have a waiter before this one; nothing if its own client has one,
-- or if it is not among the first 64.
local function clients_before(queue, id)
  local clients, seen = 0, {[string.sub(id, 1, 22)] = true}
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, 63)) do
    local client = string.sub(other, 1, 22)
    if other == id then return clients end
    if not seen[client] then
      seen[client], clients = true, clients + 1
    elseif client == string.sub(id, 1, 22) then
      return nil
    end
  end
end

-- The answer to a waiter. When the lock may be free, the first waiter asks, and then the
-- first waiter of each other client, one 100 ms after another: those before it may be dead.
-- All others ask only to show that they are alive.
local function queued(queue, id, position, until_ms, live_ms, left_ms)
  local again_ms = math.floor(live_ms / 3)
  local before = left_ms < again_ms and clients_before(queue, id)
  if before then again_ms = math.min(again_ms, left_ms + SPREAD_MS * before) end
  return {5, position, until_ms, again_ms}
end
