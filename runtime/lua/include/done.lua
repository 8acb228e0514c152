--- include/done: the mark of work that succeeded. Goes after include/fields.
---
---   bytes  field
---    1-13   until      until when it counts for whoever asks as its own request did
---   14-26   completed  when the work succeeded
---   27-39   tick       when its tick began; zeros without ticks
---   40-52   granted    when its run was granted the lock; without ticks, as completed
---   53-86   id         the request that completed it
---
--- All times are the server's, in milliseconds. The mark may stay for longer than `until`, to
--- tell how many ticks were missed. Each request counts anew how long the work is done for it, from
--- `completed` or `granted`: a deploy may have changed the time or the period.

-- Waiters that are told when the work has succeeded have it before their owner.
local ONCE = '='

local function done_fields(done)
  return tonumber(string.sub(done, 14, 26)), tonumber(string.sub(done, 40, 52))
end
