--- client/describe: reads a client's record of its process.
---
--- Changes nothing.
---
--- KEYS
---   1  client  hash  service, host, process, and ttl_ms: how long the record lasted when it was written
--- RETURN
---   {service, host, process, ttl_ms, left_ms}  each empty if it is not known; how long the record lasts
--- COST  O(1)

local client = KEYS[1]

local known = {}
for each, field in ipairs({'service', 'host', 'process', 'ttl_ms'}) do
  known[each] = redis.call('HGET', client, field) or ''
end
known[5] = redis.call('PTTL', client)
return known
