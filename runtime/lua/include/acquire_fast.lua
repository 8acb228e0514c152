--- include/acquire_fast: the uncontended path of mutex/acquire, for all requests of a call. It
--- stands before all other functions: defining those costs the server more than a grant. Goes
--- after include/record.

-- A single request for a lock without a record. If that can't be granted here, the functions
-- below see to it.
local call, sub, found = redis.call, string.sub, nil
if #KEYS == 5 then
  found = call('GET', KEYS[1])
  if not found and call('EXISTS', KEYS[2], KEYS[3]) == 0 then
    local tokens, time, id, owner = KEYS[5], call('TIME'), ARGV[1], ''
    local given, now = call('GET', tokens), time[1] .. sub('000000', #time[2] + 1) .. time[2]
    if not given or now > given then
      if given and sub(given, 1, 6) == sub(now, 1, 6) then
        call('SETRANGE', tokens, '0', now)
      elseif not string.find(tokens, '{', 1, true) then
        call('SET', tokens, now, 'PX', TOKENS_MS)
      end
      if #id > 34 then id, owner = sub(id, 1, 34), sub(id, 35) end
      call('SET', KEYS[1], 'MH' .. id .. now .. '0' .. NOBODY .. owner, 'PX', ARGV[2])
      return {1, tonumber(now)}
    end
  end
end
