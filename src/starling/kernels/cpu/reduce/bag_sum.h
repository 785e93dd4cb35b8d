#pragma once

#include <cstdint>

namespace starling::kernels {

// One bag: entries [begin, end) out of `entries`. Entry i reads row indices[i] of x, or row i if x is not gathered.
// Entries whose index is `padding` are skipped; scale, if not null, holds a factor per entry.
template <class T>
struct BagRows {
  const T* x;
  std::int64_t width;
  const std::int64_t* indices;
  std::int64_t begin, end, entries;
  std::int64_t padding;
  const T* scale;
  bool gathered;
};

// out[width] = the sum of the bag's rows, in order. Indices must be within x. Single-threaded.
template <class T>
void sum_bag(const BagRows<T>& bag, T* out);

}  // namespace starling::kernels
