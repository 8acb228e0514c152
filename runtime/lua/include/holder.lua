--- include/holder: a member of the set of holders.
---
--- A holder is the request id and how it holds: `:3` for a weight above 1, `e` for a
--- reentrant mutex, `r` for a reader, `w` for a writer; then `@` and the owner's name if it
--- has one; then a line's end and the note if it has one. Goes after include/record.

local SINCE = '^'

-- What the record of a held lock has in the holder's place: a semaphore's limit, or nothing.
local function counted(limit)
  return string.sub(NOBODY .. limit, -34)
end

-- By how much its weight is above 1.
local function excess(holder)
  return (tonumber(string.match(holder, '^:(%d+)', 35)) or 1) - 1
end

local function owner_of(holder)
  return string.match(holder, '^[^@\n]*(@[^\n]*)', 35)
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

-- Counts a holder that has come (1) or gone (-1), and notes since when a permit or a reader is
-- held. The tokens of the others say it.
local function note(holders, holder, by, now_ms)
  shift(holders, '+', by * excess(holder))
  local owner = owner_of(holder)
  if owner then shift(holders, owner, by) end
  if string.find(holder, '^[ew]', 35) then return end
  local since = SINCE .. string.sub(holder, 1, 34)
  if by == 1 then redis.call('ZADD', holders, -now_ms, since) else redis.call('ZREM', holders, since) end
end
