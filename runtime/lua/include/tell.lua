--- include/tell: hints to clients. Goes after include/queue.

-- The longest that an offer waits for its waiter. A client that is alive confirms it in
-- milliseconds; a dead one delays everybody else this long.
local OFFER_MS = 1000

-- Publishes to the client of a request, and returns how many received it.
local function publish(wake, id, message)
  local command = string.find(wake, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
  return redis.pcall(command, wake .. string.sub(id, 1, 22), message)
end

-- A client that receives no hints may be dead. Then its other waiters live no longer than
-- the offer, unless they ask again; and the first client that does receive hints is told to
-- ask, and so learns when the offer ends. Tries the first 64 waiters, and 8 clients.
local function doubt(wake, queue, waiters, id, ends_ms)
  local silent, deaf, is_told = string.sub(id, 1, 22), {}, false
  for _, other in ipairs(redis.call('ZRANGE', queue, 0, 63)) do
    local client = string.sub(other, 1, 22)
    if client == silent then
      local said = redis.call('HGET', waiters, other)
      if said and tonumber(string.sub(said, 1, 13)) > ends_ms then
        redis.call('HSET', waiters, other, ends_ms .. string.sub(said, 14))
      end
    elseif not is_told and not deaf[client] then
      deaf[client], deaf[#deaf + 1] = true, client
      is_told = #deaf > 8 or publish(wake, other, other) ~= 0
    end
  end
end

-- Tells a waiter of its offer, and by how much sooner that ends than its heartbeat, which
-- has `left_ms` left. The client believes an offer by its proof: only scripts and the client know
-- the secret in it. Without the right to publish, the waiter learns it when it asks.
local function tell(wake, queue, waiters, id, token, said, left_ms)
  local early_ms, until_ms = math.max(left_ms - OFFER_MS, 0), string.sub(said, 1, 13)
  local message = id .. token .. until_ms .. string.format('%05d', early_ms)
  local proof = string.sub(redis.sha1hex(secret_in(said) .. message), 1, 20)
  local heard = publish(wake, id, message .. proof)
  if heard == 0 then doubt(wake, queue, waiters, id, until_ms - early_ms) end
end
