--- client/introduce: record which process a client is, for lock/inspect.
---
--- Safe to send twice; sent again and again while the client is alive.
---
--- KEYS
---   1  client   hash     service, host, process, and ttl_ms
--- ARGV
---   1  service  string   the name of the service
---   2  host     string   the name of the machine
---   3  process  integer  the process id
---   4  ttl_ms   integer  how long the record lasts from now
--- RETURN
---   1  noted
--- COST  O(1)

local client = KEYS[1]
local service, host, process, ttl_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- The expiry before the entry: a user without the right to PEXPIRE leaves nothing behind.
local is_there = redis.call('PEXPIRE', client, ttl_ms)
redis.call('HSET', client, 'service', service, 'host', host, 'process', process, 'ttl_ms', ttl_ms)
if is_there == 0 then redis.call('PEXPIRE', client, ttl_ms) end
return 1
