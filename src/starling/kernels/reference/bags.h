#pragma once

#include <algorithm>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/bags.h"
#include "starling/kernels/reference/element.h"
#include "starling/tensor/shape_parts.h"

namespace starling::kernels::reference {

// The index, which must lie in [low, rows).
inline std::int64_t checked_index(const char* who, std::int64_t index, std::int64_t i, std::int64_t low,
                                  std::int64_t rows) {
  check(index >= low && index < rows, "[{}] expected indices in [{}, {}), got {} at position {}", who, low, rows, index,
        i);
  return index;
}

template <class T>
double scale_of(const Launch& launch, const op::BagOperands& operands, std::int64_t i) {
  return operands.scale < 0
             ? 1.0
             : static_cast<double>(static_cast<const T*>(launch.in[static_cast<std::size_t>(operands.scale)])[i]);
}

// Sums of the rows row_of(entry) of the first operand.
template <class T, class RowOf>
void add_up(const Launch& launch, const Bags& bags, const Bags::Bound& bound, op::BagAttrs a, std::int64_t width,
            RowOf&& row_of) {
  const auto* x = static_cast<const T*>(launch.in[0]);
  std::vector<double> sum(static_cast<std::size_t>(width));
  for (std::int64_t b = 0; b < bound.bags; ++b) {
    std::fill(sum.begin(), sum.end(), 0.0);
    const auto count = bound.count(b, a.padding);
    for (std::int64_t i = bound.begin(b); i < bound.end(b); ++i) {
      if (bound.indices[i] == a.padding) continue;
      const double scale = scale_of<T>(launch, bags.operands, i);
      const T* row = x + row_of(i) * width;
      for (std::int64_t j = 0; j < width; ++j) sum[static_cast<std::size_t>(j)] += scale * static_cast<double>(row[j]);
    }
    const double share = a.mean && count > 0 ? static_cast<double>(count) : 1.0;
    for (std::int64_t j = 0; j < width; ++j)
      static_cast<T*>(launch.out[0])[b * width + j] = static_cast<T>(sum[static_cast<std::size_t>(j)] / share);
  }
}

}  // namespace starling::kernels::reference
