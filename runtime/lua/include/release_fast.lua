--- include/release_fast: the uncontended path of mutex/release, for all requests of a call. It
--- stands before all other functions: defining those costs the server more than a release. Goes
--- after include/record.

local call, sub, found = redis.call, string.sub, nil

-- `tokens` lasts for a day. It is written anew when one of its first 6 digits changes, which is
-- every 10,000 seconds; otherwise its expiry stays.
local TOKENS_MS = '86400000'

-- A single request that needs no free record: `tokens` first, then the record.
if #KEYS == 4 then
  local id = ARGV[1]
  found = call('GET', KEYS[1])
  if found and #id == 34 and sub(found, 1, 36) == 'MH' .. id and sub(found, 53, 53) == '0' then
    local deleted, token = call('GET', KEYS[4]), sub(found, 37, 52)
    if not deleted or token > deleted then
      if deleted and sub(deleted, 1, 6) == sub(token, 1, 6) then
        call('SETRANGE', KEYS[4], '0', token)
      else
        call('SET', KEYS[4], token, 'PX', TOKENS_MS)
      end
    end
    call('UNLINK', KEYS[1])
    return 1
  end
end
