--- include/take_mutex: takes a mutex together with other locks, in two steps. Goes after
--- include/grant and include/fields.

-- Returns what `take_mutex` needs, if nobody holds the mutex and nobody waits for it, or if
-- this request holds it already. Otherwise returns nothing. `holder` is the request, and then its
-- owner and note.
local function free_mutex(lock, holders, queue, holder)
  local id, owner = string.sub(holder, 1, 34), string.sub(holder, 35)
  local rec, last, ended, flag, is_held = redis.call('GET', lock), NO_TOKEN, NOBODY, nil, false
  if rec then
    if not is_record(rec) or is_other(rec, 'M') then return nil end
    last, flag, ended = fields(rec)
    is_held = holds(rec, id)
    if ended == id or not is_held and (flag ~= '0' or string.sub(rec, 2, 2) ~= 'F') then return nil end
  elseif redis.call('EXISTS', holders, queue) > 0 then
    return nil
  end
  return {lock = lock, id = id, owner = owner, rec = is_held and rec, last = last, ended = ended}
end

-- Takes the mutex, and returns its token.
local function take_mutex(mutex, ttl_ms)
  if mutex.rec then
    redis.call('SET', mutex.lock, 'MH' .. string.sub(mutex.rec, 3), 'PX', ttl_ms)
    return tonumber(mutex.last)
  end
  return grant(mutex.lock, mutex.id, mutex.owner, mutex.last, '0', mutex.ended, ttl_ms)[2]
end
