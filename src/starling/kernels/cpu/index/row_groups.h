#pragma once

#include <cstring>

#include "starling/kernels/cpu/index/row_order.h"

namespace starling::kernels {

// Iteration over entries sorted by row, one row at a time.

// Calls each(first, end) for the runs of equal rows that begin in [begin, end) of n sorted entries.
template <class F>
void for_groups(const RowEntry* sorted, std::int64_t n, std::int64_t begin, std::int64_t end, F&& each) {
  for (std::int64_t i = begin; i < end;) {
    std::int64_t next = i + 1;
    while (next < n && sorted[next].row == sorted[i].row) ++next;
    if (i == 0 || sorted[i - 1].row != sorted[i].row) each(i, next);
    i = next;
  }
}

// Sum of a group's values: in `sum`, or a pointer to the entry itself if it is alone.
template <class T>
const T* sum_of(const RowEntry* sorted, std::int64_t first, std::int64_t end, const T* values, std::int64_t width,
                const RowAdd<T>& add, T* sum) {
  const T* only = values + sorted[first].position * width;
  if (end - first == 1) return only;
  std::memcpy(sum, only, static_cast<std::size_t>(width) * sizeof(T));
  for (std::int64_t i = first + 1; i < end; ++i) add(sum, values + sorted[i].position * width);
  return sum;
}

}  // namespace starling::kernels
