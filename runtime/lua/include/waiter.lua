--- include/waiter: how a waiter asks, and how its last ask is stored. Goes after include/fields.
---
---   bytes  field
---    1-13   until   until when it is taken to be alive: the server's time in milliseconds
---   14-35   secret  its client's secret, with which scripts prove their offers
---   36      kind    the letter of its kind
---   37-     demand  a semaphore's limit, and how it will hold the lock

-- The parts of a waiter's last ask, all but its heartbeat.
local function secret_in(said) return string.sub(said, 14, 35) end
local function kind_in(said) return string.sub(said, 36, 36) end
local function demand_in(said) return string.sub(said, 37) end

-- How a request waits: for how many milliseconds it is taken to be alive (0: it does not wait),
-- its client's secret, and its position in the queue; if it has none, minus its age in microseconds.
local function waits_in(waits)
  local live_ms, secret, told = string.match(waits, '^(%d+) (%S+) (.+)')
  return tonumber(live_ms) or 0, secret, tonumber(told)
end
