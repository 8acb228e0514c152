--- include/runs: the runs of a job since its last success. Goes after include/done.
---
---   bytes  field
---    1-13   first   when the first of them began
---   14-26   last    when the last of them began
---   27-39   tick    how long the last one's tick lasts
---   40-73   id      the request of the last one
---   74-     count   how many there were
---
--- All times are the server's, in milliseconds.

-- Notes a run that begins. `before` is what was noted; it counts if it is newer than the last success.
local function note_run(runs, before, id, began_ms, last_ms, tick_ms, keep_ms)
  local first_ms, count = began_ms, 0
  if before and (tonumber(string.sub(before, 14, 26)) or 0) > last_ms then
    first_ms = tonumber(string.sub(before, 1, 13)) or began_ms
    count = tonumber(string.sub(before, 74)) or 0
  end
  local times = string.format('%013.0f%013.0f%013.0f', first_ms, began_ms, tick_ms)
  redis.call('SET', runs, times .. id .. string.format('%.0f', count + 1), 'PX', keep_ms)
end
