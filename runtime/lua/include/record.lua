--- include/record: the record of a lock: its layout.
---
---   bytes  field
---    1      kind   M mutex, E reentrant mutex, S semaphore, R read-write lock
---    2      state  H held, O offered to a waiter, K kept (hold-at-least), F free
---    3-36   id     the request that holds it, or that it is offered to
---   37-52   token  the first fencing token of its block
---   53      flag   1 if somebody may wait in the queue, else 0
---   54-87   ended  the request that ended last: a late repeat of it is refused
---   88-     owner  a held mutex: `@` and the owner's name, if it was given one
---
--- A string of another shape was put there by somebody else, and is not ours
--- to write. Without the flag, the queue is empty.

local GRACE_MS, BLOCK = '60000', 64
local NOBODY = '----------------------------------'
local NO_TOKEN = '0000000000000000'
