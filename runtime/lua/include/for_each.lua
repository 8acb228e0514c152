--- include/for_each: answers several requests of one call, each by itself: what goes
--- wrong with one is its answer, and no matter of the others.

local function for_each(count, request)
  local answers = {}
  for each = 1, count do
    local is_ok, said = pcall(request, each)
    answers[each] = (is_ok or type(said) == 'table') and said or {err = said}
  end
  return answers
end
