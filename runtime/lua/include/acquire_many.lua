--- include/acquire_many: the uncontended path of mutex/acquire, for several requests and for
--- records. Goes after include/acquire_fast and include/token.

-- Grants a mutex that is free and has no waiters. Otherwise does nothing.
local function grant_fast(each, rec)
  local id, owner, last, ended = ARGV[3 * each - 2], '', NO_TOKEN, NOBODY
  if #id > 34 then id, owner = sub(id, 1, 34), sub(id, 35) end
  if rec then
    last, ended = sub(rec, 37, 52), sub(rec, 54, 87)
    if not string.find(rec, '^[MESR]F') or sub(rec, 53, 53) ~= '0' or #rec < 87 or ended == id then return nil end
  end
  local token, number = next_token(last)
  local said = redis.pcall('SET', KEYS[4 * each - 3], 'MH' .. id .. token .. '0' .. ended .. owner, 'PX', ARGV[3 * each - 1])
  return said.err and said or {1, number}
end

-- Reads all records at once, and grants what it can. Returns the answers, each at its place, and
-- whether these are all.
local function grant_all(count)
  local locks, bare, seen, answers, are_all = {}, {}, {}, {}, true
  for each = 1, count do locks[each] = KEYS[4 * each - 3] end
  local recs = redis.pcall('MGET', unpack(locks))
  if recs.err then return answers, false end
  for each, lock in ipairs(locks) do
    if not recs[each] then
      -- MGET takes a key of another type for none.
      local at = #bare
      bare[at + 1], bare[at + 2], bare[at + 3] = lock, KEYS[4 * each - 2], KEYS[4 * each - 1]
    end
  end
  local are_bare = bare[1] and call('EXISTS', unpack(bare)) == 0
  for each, lock in ipairs(locks) do
    local rec = recs[each]
    -- A lock's first request changes what the next request for it meets.
    if not seen[lock] and (rec or are_bare) then answers[each] = grant_fast(each, rec) end
    seen[lock], are_all = true, are_all and answers[each]
  end
  return answers, are_all
end

local count, answers, are_all = (#KEYS - 1) / 4, nil, nil
if count > 1 then
  answers, are_all = grant_all(count)
  if are_all then return answers end
elseif found then
  local answer = grant_fast(1, found)
  if answer then return answer end
end
