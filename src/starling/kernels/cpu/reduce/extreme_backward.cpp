#include "starling/kernels/cpu/reduce/extreme_backward.h"

#include <algorithm>
#include <cstring>

#include "starling/base/parallel.h"

namespace starling::kernels {
namespace {

template <bool Largest, class T>
bool reaches(T x, T y) {
  return (Largest ? x >= y : x <= y) || x != x;
}

// Index of the first element of a row that equals y, searched block by block so that the compiler can vectorise.
template <bool Largest, class T>
std::int64_t first_place(const T* x, std::int64_t n, T y) {
  constexpr std::int64_t kBlock = 64;
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    int found = 0;
    for (std::int64_t k = 0; k < kBlock; ++k) found |= reaches<Largest>(x[i + k], y);
    if (found) break;
  }
  while (i < n && !reaches<Largest>(x[i], y)) ++i;
  return i;
}

// Run of elements reduced into one result.
template <bool Largest, class T>
void reduced_run(const ExtremeBackward<T>& a, std::int64_t from, std::int64_t n, std::int64_t result) {
  std::memset(a.dx + from, 0, static_cast<std::size_t>(n) * sizeof(T));
  if (a.given[result]) return;
  const std::int64_t at = first_place<Largest>(a.x + from, n, a.y[result]);
  if (at == n) return;
  a.dx[from + at] = a.dy[result];
  a.given[result] = 1;
}

// Run of elements with one result each.
template <bool Largest, class T>
void kept_run(const ExtremeBackward<T>& a, std::int64_t from, std::int64_t n, std::int64_t result) {
  const T *x = a.x + from, *y = a.y + result, *dy = a.dy + result;
  T* dx = a.dx + from;
  std::uint8_t* given = a.given + result;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool wins = reaches<Largest>(x[i], y[i]) && !given[i];
    given[i] = static_cast<std::uint8_t>(given[i] | wins);
    dx[i] = wins ? dy[i] : T{0};
  }
}

// Loops over the groups outside the innermost run; `result` is the first result of its elements.
template <bool Largest, class T>
void walk(const ExtremeBackward<T>& a, const ReduceGroups& groups, int level, std::int64_t from, std::int64_t result) {
  const ReduceGroup& group = groups.of[static_cast<std::size_t>(level)];
  if (level == groups.count - 1) {
    if (group.reduced)
      reduced_run<Largest>(a, from, group.size, result);
    else
      kept_run<Largest>(a, from, group.size, result);
    return;
  }
  std::int64_t inside = 1, kept = 1;
  for (int g = level + 1; g < groups.count; ++g) {
    const auto& other = groups.of[static_cast<std::size_t>(g)];
    inside *= other.size;
    if (!other.reduced) kept *= other.size;
  }
  const std::int64_t step = group.reduced ? 0 : kept;
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      walk<Largest>(a, groups, level + 1, from + i * inside, result + i * step);
  };
  // Threads share the outermost kept dimension; elements of one result stay with one thread.
  if (level == 0 && !group.reduced)
    parallel_for(group.size, std::max<std::int64_t>(16384 / inside, 1), some);
  else
    some(0, group.size);
}

// Reduction of one long axis by columns: threads share the columns.
template <bool Largest, class T>
void columns(const ExtremeBackward<T>& a, std::int64_t rows, std::int64_t cols) {
  parallel_for(cols, std::max<std::int64_t>(16384 / rows, 64), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) kept_run<Largest>(a, r * cols + begin, end - begin, begin);
  });
}

template <bool Largest, class T>
void run(const ExtremeBackward<T>& a, const ReduceGroups& groups) {
  if (groups.count == 0) return kept_run<Largest>(a, 0, 1, 0);
  if (groups.count == 2 && groups.of[0].reduced) return columns<Largest>(a, groups.of[0].size, groups.of[1].size);
  walk<Largest>(a, groups, 0, 0, 0);
}

}  // namespace

template <class T>
void extreme_backward(const ExtremeBackward<T>& args, const ReduceGroups& groups) {
  std::int64_t results = 1;
  for (int g = 0; g < groups.count; ++g) {
    if (!groups.of[static_cast<std::size_t>(g)].reduced) results *= groups.of[static_cast<std::size_t>(g)].size;
  }
  std::memset(args.given, 0, static_cast<std::size_t>(results));
  args.largest ? run<true>(args, groups) : run<false>(args, groups);
}

template void extreme_backward(const ExtremeBackward<float>&, const ReduceGroups&);
template void extreme_backward(const ExtremeBackward<double>&, const ReduceGroups&);

}  // namespace starling::kernels
