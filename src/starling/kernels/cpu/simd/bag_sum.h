#pragma once

#include <cstdint>

namespace starling {

// One bag: entries [begin, end) of `entries` in all. The row of entry i is row indices[i] of x, or row i where x is not
// gathered. Entries whose index is `padding` are left out; scale, where it is not null, has a factor for every entry.
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

// out[width] = the sum of the bag's rows, in their order. Indices must be within x. Single-threaded.
template <class T>
void sum_bag(const BagRows<T>& bag, T* out);

}  // namespace starling
