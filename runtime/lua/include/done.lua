--- include/done: the mark of work that succeeded. Goes after include/fields.
---
---   bytes  field
---    1-13   until      no other run begins before this time
---   14-26   completed  when the work succeeded
---   27-39   tick       when its tick began; zeros without ticks
---   40-73   id         the request that completed it
---
--- All times are the server's, in milliseconds. The mark may stay for longer than `until`, to
--- tell how many ticks were missed.

-- Waiters that are told when the work has succeeded have it before their owner.
local ONCE = '='

local function done_fields(done)
  return tonumber(string.sub(done, 1, 13)), tonumber(string.sub(done, 14, 26)), tonumber(string.sub(done, 27, 39))
end
