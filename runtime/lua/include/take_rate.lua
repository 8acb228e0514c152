--- include/take_rate: takes from a rate, in two steps: together with others, all or none. Goes
--- after include/rate.

-- Forgets requests of which no copy can arrive any more.
local function forget(rate, ids)
  local settled = {}
  for at = 1, #ids, 34 do settled[#settled + 1] = string.sub(ids, at, at + 33) end
  if settled[1] then redis.call('ZREM', rate, unpack(settled)) end
end

-- Returns what `take_rate` needs, if there is enough, or if this request has taken it already.
-- Otherwise returns nothing, and after how long there is; that never comes for one that gave it back.
local function free_rate(rate, id, weight_us, burst_us, settled)
  forget(rate, settled)
  local used_us, now_us, until_us, was_given_back = read_rate(rate, id)
  if until_us and was_given_back then return nil end
  local short_us = used_us + weight_us - burst_us - now_us
  if not until_us and short_us > 0 then return nil, short_us end
  return {
    rate = rate, id = id, used_us = used_us, now_us = now_us, weight_us = weight_us, until_us = until_us,
  }
end

-- Takes it, and returns how long the rate is used up from now. A repeat changes nothing, but writes:
-- `WAIT` asks replicas for what its own connection has written.
local function take_rate(free)
  local rate, used_us, now_us, until_us = free.rate, free.used_us, free.now_us, free.until_us
  if until_us then
    keep_rate(rate, used_us, now_us, until_us)
  else
    used_us = used_us + free.weight_us
    note_rate(rate, used_us, now_us, free.id, used_us)
  end
  return used_us - now_us
end
