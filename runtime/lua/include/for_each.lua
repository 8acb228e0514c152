--- include/for_each: answers each request of one call by itself. If one fails, its error is
--- its answer, and the others still run.

local function for_each(count, request)
  local answers = {}
  for each = 1, count do
    local is_ok, said = pcall(request, each)
    answers[each] = (is_ok or type(said) == 'table') and said or {err = said}
  end
  return answers
end
