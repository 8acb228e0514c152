--- include/runs: the runs of a job since its last success. Goes after include/done.
---
---   bytes  field
---    1-13   first   when the first of them began
---   14-26   last    when the last of them began
---   27-39   tick    how long the last one's tick lasts
---   40-52   ends    when the tick of the first one ends: without a success, the job is overdue then
---   53-86   id      the request of the last one
---   87-     count   how many there were
---
--- All times are the server's, in milliseconds.

-- Notes a run that begins in a tick. `before` is what was noted: it counts if it is newer than the
-- last success, and is left alone if it is of another type.
local function note_run(runs, before, id, began_ms, last_ms, tick_at_ms, tick_ms, keep_ms)
  if type(before) == 'table' then return end
  local first_ms, ends_ms, count = began_ms, tick_at_ms + tick_ms, 0
  if before and (tonumber(string.sub(before, 14, 26)) or 0) > last_ms then
    first_ms = tonumber(string.sub(before, 1, 13)) or first_ms
    ends_ms = tonumber(string.sub(before, 40, 52)) or ends_ms
    count = tonumber(string.sub(before, 87)) or 0
  end
  local times = string.format('%013.0f%013.0f%013.0f%013.0f', first_ms, began_ms, tick_ms, ends_ms)
  redis.call('SET', runs, times .. id .. string.format('%.0f', count + 1), 'PX', keep_ms)
end
