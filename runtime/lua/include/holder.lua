--- include/holder: a member of the set of holders.
---
--- A holder is the request id and how it holds: `:3` for a weight above 1, `e` for a
--- reentrant mutex, `r` for a reader, `w` for a writer; then `@` and the owner's name if it
--- has one.

-- By how much its weight is above 1.
local function excess(holder)
  return (tonumber(string.match(holder, '^:(%d+)', 35)) or 1) - 1
end

local function owner_of(holder)
  return string.match(holder, '@.*', 35)
end

local function is_writer(holder)
  return string.sub(holder, 35, 35) == 'w'
end

local function is_live(deadline_ms, now_ms)
  return deadline_ms and tonumber(deadline_ms) > now_ms
end

local function shift(holders, count, by)
  if by == 0 then return end
  if tonumber(redis.call('ZINCRBY', holders, -by, count)) == 0 then redis.call('ZREM', holders, count) end
end

-- Counts a holder that has come (1) or gone (-1).
local function note(holders, holder, by)
  shift(holders, '+', by * excess(holder))
  local owner = owner_of(holder)
  if owner then shift(holders, owner, by) end
end
