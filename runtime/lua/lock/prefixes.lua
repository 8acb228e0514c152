--- lock/prefixes: a page of the prefixes under which there are locks, also those of other services.
---
--- Changes nothing. It goes through the keys of one server, as lock/list does.
---
--- ARGV
---   1  cursor    integer  where the page begins; 0: the first page
---   2  count     integer  how many keys to go through
--- RETURN
---   {cursor, prefixes}  where the next page begins, 0 after the last; each once, in braces
--- COST  O(count)

local cursor, count = ARGV[1], ARGV[2]

local page, prefixes, seen = redis.call('SCAN', cursor, 'MATCH', '*:lock:*', 'COUNT', count), {}, {}
for _, key in ipairs(page[2]) do
  local prefix = string.match(key, '^(.-):lock:.')
  if prefix and not seen[prefix] then seen[prefix], prefixes[#prefixes + 1] = true, '{' .. prefix .. '}' end
end
return {page[1], prefixes}
