--- lock/list: a page of the names of locks that may be held, kept or waited for, or that are waited
--- for; or of jobs.
---
--- Changes nothing. It goes through the keys of one server, as SCAN does: a name may come twice.
--- A free lock that nobody waits for is left out. Whoever reads the names looks at each lock.
--- A job is work with ticks that has run, or that is to run again.
---
--- INCLUDE record token fields
---
--- ARGV
---   1  prefix   string   what all keys begin with
---   2  match    string   a pattern for all keys that begin with it
---   3  literal  string   what the names begin with
---   4  cursor   integer  where the page begins; 0: the first page
---   5  count    integer  how many keys to go through
---   6  of       string   `locks`, `waited` or `jobs`
--- RETURN
---   {cursor, names}  where the next page begins, 0 after the last; names as they end the keys
--- COST  O(count)

local prefix, match, literal, cursor, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- A key whose slot is moving can't be read here. It counts as there.
local function exists(role, name)
  return redis.pcall('EXISTS', prefix .. ':' .. role .. ':' .. name) ~= 0
end

local function may_be_busy(role, key, name)
  if role ~= 'lock' then return not exists('lock', name) end
  local rec = redis.pcall('GET', key)
  if type(rec) == 'table' then return not string.find(rec.err, 'WRONGTYPE', 1, true) end
  return rec and is_record(rec) and (string.sub(rec, 2, 2) ~= 'F' or exists('queue', name))
end

-- A mark without ticks is no job's.
local function has_ticks(name)
  local mark = redis.pcall('GET', prefix .. ':done:' .. name)
  return type(mark) == 'string' and string.find(string.sub(mark, 27, 39), '[1-9]') ~= nil
end

local is_listed = {
  locks = {
    lock = may_be_busy,
    holders = may_be_busy,
    queue = may_be_busy,
  },
  waited = {
    queue = function() return true end,
  },
  jobs = {
    done = function(_, _, name) return has_ticks(name) end,
    runs = function(_, _, name) return not has_ticks(name) end,
    again = function(_, key, name)
      local asked = redis.pcall('GET', key)
      local is_of_job = type(asked) == 'string' and string.find(string.sub(asked, 14, 26), '[1-9]')
      return is_of_job and not has_ticks(name) and not exists('runs', name)
    end,
  },
}

local page, names = redis.call('SCAN', cursor, 'MATCH', match, 'COUNT', count), {}
for _, key in ipairs(page[2]) do
  local role, name = string.match(string.sub(key, #prefix + 2), '^(%l+):(.+)$')
  local of_role = is_listed[ARGV[6]][role]
  local start = of_role and string.find(name, literal, 1, true)
  if (start == 1 or start == 2 and string.sub(name, 1, 1) == '{') and of_role(role, key, name) then
    names[#names + 1] = name
  end
end
return {page[1], names}
