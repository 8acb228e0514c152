--- mutex/tell_all: tell all clients that work may run again.
---
--- KEYS
---   1  limits   string   the key in whose slot the channel for all clients is; it is not read
--- ARGV
---   1  channel  string   where all clients listen
---   2  message  string   what they are told
--- RETURN
---   1
--- COST  O(clients)

local _, channel, message = KEYS[1], ARGV[1], ARGV[2]

-- Without the right to publish, clients learn it when they ask.
local command = string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH'
redis.pcall(command, channel, message)
return 1
