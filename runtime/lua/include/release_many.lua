--- include/release_many: the uncontended path of mutex/release, for several requests and for those
--- whose free record is needed. Goes after include/release_fast and include/token.

-- Frees a mutex that the request holds and that has no waiters, and returns 1. If no free record
-- is needed, also returns true, and leaves the record to be deleted. Otherwise does nothing.
local function release_fast(each, rec)
  local id, after = ARGV[each], ''
  if #id > 34 then id, after = sub(id, 1, 34), sub(id, 35) end
  if not rec or sub(rec, 1, 36) ~= 'MH' .. id or sub(rec, 53, 53) ~= '0' then return nil end
  local token = sub(rec, 37, 52)
  if after == '' then return 1, true end
  if after ~= ':0' then return nil end
  local said = redis.pcall('SET', KEYS[3 * each - 2], 'MF' .. NOBODY .. token .. '0' .. id, 'PX', free_ms(token))
  return said.err and said or 1
end

-- Reads all records at once, and releases what it can. Returns the answers, each at its place,
-- and whether these are all.
local function release_all(count)
  local locks, seen, answers, unneeded, are_all = {}, {}, {}, {}, true
  for each = 1, count do locks[each] = KEYS[3 * each - 2] end
  local recs = redis.pcall('MGET', unpack(locks))
  if recs.err then return answers, false end
  for each, lock in ipairs(locks) do
    -- A lock's first request changes what the next request for it meets.
    local answer, is_unneeded
    if not seen[lock] then answer, is_unneeded = release_fast(each, recs[each]) end
    if is_unneeded then unneeded[#unneeded + 1] = lock end
    answers[each], seen[lock], are_all = answer, true, are_all and answer
  end
  if unneeded[1] then call('UNLINK', unpack(unneeded)) end
  return answers, are_all
end

local count, answers, are_all = (#KEYS - 1) / 3, nil, nil
if count > 1 then
  answers, are_all = release_all(count)
  if are_all then return answers end
elseif found then
  local answer, is_unneeded = release_fast(1, found)
  if answer and not is_unneeded then return answer end
end
