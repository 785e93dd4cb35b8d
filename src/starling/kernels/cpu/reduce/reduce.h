#pragma once

#include <cstdint>

namespace starling::kernels {

// Reductions of a contiguous array seen as [outer, axis, inner] over its middle axis; out is [outer, inner]. T is float
// or double. Long sums go through short partial sums that are added in double, split by the shape alone: the result
// does not depend on the number of threads. Never allocates. `x` and `out` must not overlap.
struct ReduceShape {
  std::int64_t outer = 1;
  std::int64_t axis = 1;
  std::int64_t inner = 1;
};

// out = scale * sum; a mean has scale = 1 / axis. Zero over an empty axis.
template <class T>
void reduce_sum(const T* x, T* out, ReduceShape shape, double scale = 1.0);

// NaN where any element is NaN; -inf over an empty axis.
template <class T>
void reduce_max(const T* x, T* out, ReduceShape shape);
// +inf over an empty axis.
template <class T>
void reduce_min(const T* x, T* out, ReduceShape shape);

// Largest or smallest of n contiguous elements; NaN if any is NaN. One thread.
template <class T>
T row_extreme(const T* x, std::int64_t n, bool largest);

// Reductions computed in double: products, p-norms for 1, 2, infinity or any p > 0, and log Σ eˣ.
template <class T>
void reduce_prod(const T* x, T* out, ReduceShape shape);
template <class T>
void reduce_norm(const T* x, T* out, ReduceShape shape, double p);
template <class T>
void reduce_logsumexp(const T* x, T* out, ReduceShape shape);

}  // namespace starling::kernels
