#pragma once

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/bags.h"
#include "starling/kernels/cpu/index/row_order.h"
#include "starling/kernels/cpu/reduce/bag_sum.h"

namespace starling::kernels {

// Number of bags that are worth a thread, from their mean number of entries of `width` elements.
inline std::int64_t bags_per_thread(const op::BagOperands& operands, std::int64_t width) {
  constexpr std::int64_t kGrain = 32768;
  const double each = static_cast<double>(operands.entries + operands.bags) * static_cast<double>(width) /
                      static_cast<double>(std::max<std::int64_t>(operands.bags, 1));
  return static_cast<std::int64_t>(kGrain / std::max(each, 1.0)) + 1;
}

template <class T>
const T* bag_scale(const Launch& launch, const op::BagOperands& operands) {
  return operands.scale < 0 ? nullptr : static_cast<const T*>(launch.in[static_cast<std::size_t>(operands.scale)]);
}

// Sums of rows in bags. Gathered: entry i reads the row of its index; else row i.
template <class T, bool Gathered>
struct BagSum {
  Bags bags;
  op::BagAttrs how;
  std::int64_t rows, width;
  const char* who;

  void operator()(const Launch& launch) const {
    const auto bound = bags.bind(launch, who);
    if constexpr (Gathered) check_indices(bound.indices, bound.entries, rows, who);
    const T* scale = bag_scale<T>(launch, bags.operands);
    const auto* x = static_cast<const T*>(launch.in[0]);
    parallel_for(bound.bags, bags_per_thread(bags.operands, width), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) bag(bound, b, x, scale, static_cast<T*>(launch.out[0]) + b * width);
    });
  }
  void bag(const Bags::Bound& bound, std::int64_t b, const T* x, const T* scale, T* out) const {
    sum_bag<T>({x, width, bound.indices, bound.begin(b), bound.end(b), bound.entries, how.padding, scale, Gathered},
               out);
    const auto count = how.mean ? bound.count(b, how.padding) : 1;
    if (count < 2) return;
    const T share = T{1} / static_cast<T>(count);
    for (std::int64_t j = 0; j < width; ++j) out[j] *= share;
  }
};

}  // namespace starling::kernels
