#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "starling/kernels/kernel.h"

namespace starling::cuda {

// Code by which one thread per result walks the terms of a reduction in their order: for every j below `terms`,
// `long long r = j;`, then `decoded`; the term is at `base + place`. Results are numbered over `kept`, x0, x1, ….
struct TermWalk {
  Shape kept{};
  std::int64_t terms = 1;
  std::string base = "0ll", place = "0ll", decoded{};
};

inline TermWalk walk_terms(const kernels::ArgDesc& x, const Shape& axes) {
  const auto reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
  TermWalk walk;
  for (int d = x.shape.rank() - 1; d >= 0; --d) {
    if (!reduced(d)) continue;
    walk.decoded += fmt::format("    const long long t{0} = r % {1}; r /= {1};\n", d, x.shape[d]);
    walk.place += fmt::format(" + t{} * {}ll", d, x.strides[d]);
    walk.terms *= x.shape[d];
  }
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (reduced(d)) continue;
    walk.base += fmt::format(" + x{} * {}ll", walk.kept.rank(), x.strides[d]);
    walk.kept.push_back(x.shape[d]);
  }
  return walk;
}

}  // namespace starling::cuda
