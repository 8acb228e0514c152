--- include/record: the layout of a lock's record.
---
---   bytes  field
---    1      kind   M mutex, E reentrant mutex, S semaphore, R read-write lock
---    2      state  H held, O offered to a waiter, K kept (hold_at_least), F free
---    3-36   id     the request that holds the mutex, or has an offer of it; of a held
---                  semaphore the limit that the last permit was counted against, behind dashes
---   37-52   token  the first fencing token of its block
---   53      flag   1 if there may be waiters, else 0
---   54-87   ended  the request that ended last: a late copy of its acquire is refused
---   88-     owner  of a held mutex: a mark, if its client may keep it without using it
---                  (`~`), or was asked to release it (`!`); then `@` and the owner's name,
---                  if it has one; then a line's end and the note, if it has one
---
--- Among the holders of any other lock, members with a score of -MARKS or less are such
--- marks, each with its client; see include/recall_clients.
---
--- A string of another shape belongs to somebody else, and is never overwritten. Without
--- the flag, the queue is empty.

local GRACE_MS, BLOCK = 60000, 64
-- `tokens` is written anew when one of its first 6 digits changes, every 10,000 seconds.
local TOKENS_MS = 86400000
local NOBODY = '----------------------------------'
local NO_TOKEN = '0000000000000000'
local LINGERS, RECALLED, MARKS = '~', '!', 1000000000000000
