#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Common geometry of gather, scatter and the like: indices seen as [outer, count, inner], the indexed tensor as [outer,
// size, inner].
struct IndexGrid {
  std::int64_t outer = 1;
  std::int64_t count = 0;
  std::int64_t inner = 1;
  std::int64_t size = 0;  // of the indexed axis
};

// Part of the writes that touches elements no other part touches, in element order.
struct WritePart {
  std::int64_t outer_begin, outer_end;
  std::int64_t inner_begin, inner_end;
  std::int64_t size_begin, size_end;  // only indices in this range are written
};

// Calls body on parts that cover all writes, one per thread if the work suffices. Parts split the outer axes, the inner
// ones, or the targets, so that sums are added in element order for any number of threads.
template <class Body>
void for_each_part(const IndexGrid& grid, Body&& body) {
  constexpr std::int64_t kGrain = 32768, kLeastColumns = 64;
  WritePart all{0, grid.outer, 0, grid.inner, 0, grid.size};
  const std::int64_t line = grid.count * grid.inner, total = grid.outer * line;
  const int threads = num_threads();
  if (total == 0) return;
  if (threads == 1 || total < 2 * kGrain) return body(all);
  if (grid.outer >= threads) {
    parallel_for(grid.outer, kGrain / line + 1, [&](std::int64_t begin, std::int64_t end) {
      WritePart part = all;
      part.outer_begin = begin;
      part.outer_end = end;
      body(part);
    });
  } else if (grid.inner >= threads * kLeastColumns) {
    parallel_for(grid.inner, kLeastColumns, [&](std::int64_t begin, std::int64_t end) {
      WritePart part = all;
      part.inner_begin = begin;
      part.inner_end = end;
      body(part);
    });
  } else {
    parallel_for(grid.size, 1, [&](std::int64_t begin, std::int64_t end) {
      WritePart part = all;
      part.size_begin = begin;
      part.size_end = end;
      body(part);
    });
  }
}

// Copies rows of one outer index, short ones without a call to memcpy.
template <class T>
void select_line(const IndexGrid& grid, const std::int64_t* rows, std::int64_t count, const T* source, T* out) {
  constexpr std::int64_t kShortBytes = 64;
  if (grid.inner == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = source[rows[i]];
  } else if (grid.inner * static_cast<std::int64_t>(sizeof(T)) < kShortBytes) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T* from = source + rows[i] * grid.inner;
      for (std::int64_t j = 0; j < grid.inner; ++j) *out++ = from[j];
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      std::copy_n(source + rows[i] * grid.inner, grid.inner, out + i * grid.inner);
  }
}

// Row selection and writes by indices in [0, size): source or target is [outer, size, inner], the other [outer, count,
// inner].
template <class T>
void select_rows(const IndexGrid& grid, const std::int64_t* rows, const T* source, T* out) {
  const std::int64_t grain = 65536 / (grid.inner * static_cast<std::int64_t>(sizeof(T)) + 1) + 1;
  parallel_for(grid.outer * grid.count, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t o = begin / grid.count, i = begin % grid.count, run = std::min(grid.count - i, end - begin);
      select_line(grid, rows + i, run, source + o * grid.size * grid.inner, out + begin * grid.inner);
      begin += run;
    }
  });
}

template <class T, class Write>
void write_rows(const IndexGrid& grid, const std::int64_t* rows, const T* source, T* out, Write write) {
  for_each_part(grid, [&](const WritePart& part) {
    for (std::int64_t o = part.outer_begin; o < part.outer_end; ++o) {
      for (std::int64_t i = 0; i < grid.count; ++i) {
        if (rows[i] < part.size_begin || rows[i] >= part.size_end) continue;
        T* to = out + (o * grid.size + rows[i]) * grid.inner;
        const T* from = source + (o * grid.count + i) * grid.inner;
        for (std::int64_t j = part.inner_begin; j < part.inner_end; ++j) write(to[j], from[j]);
      }
    }
  });
}

// Write operations: replace or add.
struct Replaces {
  template <class T>
  void operator()(T& to, T from) const {
    to = from;
  }
};
struct Adds {
  template <class T>
  void operator()(T& to, T from) const {
    if constexpr (std::is_integral_v<T>)
      to = static_cast<T>(static_cast<std::uint64_t>(to) + static_cast<std::uint64_t>(from));
    else
      to += from;
  }
};

// Calls f.template operator()<U>() with an unsigned integer of the element's size, for pure copies.
template <class F>
decltype(auto) by_size(std::size_t bytes, F&& f) {
  if (bytes == 1) return f.template operator()<std::uint8_t>();
  if (bytes == 2) return f.template operator()<std::uint16_t>();
  if (bytes == 4) return f.template operator()<std::uint32_t>();
  return f.template operator()<std::uint64_t>();
}
// Calls f with float, double, i32 or i64; null for other dtypes.
template <class F>
std::unique_ptr<Plan> for_sums(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f64) return f.template operator()<double>();
  if (dtype == DType::i32) return f.template operator()<std::int32_t>();
  if (dtype == DType::i64) return f.template operator()<std::int64_t>();
  return nullptr;
}

}  // namespace starling::kernels
