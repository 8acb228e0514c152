--- include/holders: the holders of a lock that can have several.
---
--- A sorted set of holders by deadline, in the server's milliseconds. A deadline at or
--- before now means that the holder is gone. Members with negative scores are no holders,
--- and end with the set: `+`, the total weight less the number of holders; `@` and a name,
--- how many holders this owner has; `!`, when the writer's lease ends; `^` and a request, since
--- when this permit or reader is held; and the marks of include/recall_clients. Goes after
--- include/holder and include/fields.

-- Adds a holder, or gives it a new deadline. `write` writes the record, told how long the set lasts, before
-- the holder is there: a script that lacks a right halfway leaves no holder with another's token.
local function put_in(holders, holder, lasts_ms, now_ms, write)
  -- The expiry before the member: a user without the right to PEXPIRE leaves nothing behind.
  local expiry_ms = math.max(redis.call('PTTL', holders), lasts_ms)
  local is_there = redis.call('PEXPIRE', holders, expiry_ms)
  write(expiry_ms)
  local is_new = redis.call('ZADD', holders, now_ms + lasts_ms, holder) == 1
  if is_there == 0 then redis.call('PEXPIRE', holders, expiry_ms) end
  local is_noted, why = true, nil
  if is_new then is_noted, why = pcall(note, holders, holder, 1, now_ms) end
  -- Without the right to ZINCRBY: a holder that counts for less would let in too many.
  if not is_noted then redis.call('ZREM', holders, holder); error(why, 0) end
  if is_writer(holder) then redis.call('ZADD', holders, -(now_ms + lasts_ms), '!') end
end

local function take_out(holders, holder)
  if redis.call('ZREM', holders, holder) == 0 then return end
  note(holders, holder, -1)
  if is_writer(holder) then redis.call('ZREM', holders, '!') end
end

-- Removes expired holders, at most 64, and returns how many. When a writer's lease ended goes with
-- it, or it would count again if the clock went back; its owner may have a new one by then.
local function purge(holders, now_ms)
  local ended = redis.call('ZRANGE', holders, 0, now_ms, 'BYSCORE', 'LIMIT', 0, 64)
  if #ended == 0 then return 0 end
  redis.call('ZREM', holders, unpack(ended))
  for _, holder in ipairs(ended) do
    note(holders, holder, -1)
    local ends = is_writer(holder) and redis.call('ZSCORE', holders, '!')
    if ends and -ends <= now_ms then redis.call('ZREM', holders, '!') end
  end
  return #ended
end

-- When the last lease ends; nothing if there is no live one. Then the set is deleted.
local function ends_at(holders, now_ms)
  local last = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if is_live(last, now_ms) then return tonumber(last) end
  if last then redis.call('PEXPIRE', holders, 0) end
end

-- How long a record stays whose last lease ends in `lasts_ms`. A token ahead of the clock,
-- from another server or from before the clock went back, stays until the clock reaches it.
local function stays_ms(token, lasts_ms, now_ms)
  return math.max(lasts_ms, math.ceil((token + BLOCK) / 1000) - now_ms)
end

-- How long until the last lease ends.
local function rest_ms(holders, now_ms)
  return (ends_at(holders, now_ms) or now_ms) - now_ms
end

-- Returns true if the owner of this holder has a live lease.
local function owns(holders, holder, now_ms)
  local owner = owner_of(holder)
  if not owner or not ends_at(holders, now_ms) then return false end
  purge(holders, now_ms)
  return redis.call('ZSCORE', holders, owner) ~= false
end
