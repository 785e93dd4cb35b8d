#pragma once

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {

// c = Σ a · b over `summed`, for every element of `result`: products with too little reuse for a gemm, such as
// elementwise ones, dot products and sums (where b is a single 1). Strides are those of a, b and c.
template <class T>
struct ThinProduct {
  Loops result;  // strides of a, b, c
  Loops summed;  // strides of a, b; the shape is empty where nothing is summed

  void run(const T* a, const T* b, T* c) const {
    const int rank = result.shape.rank();
    const std::int64_t line = rank == 0 ? 1 : result.shape.back(), lines = result.shape.numel() / line;
    const std::int64_t work = line * summed.shape.numel();
    parallel_for(lines, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) one_line(i, line, a, b, c);
                 });
  }

 private:
  static constexpr std::int64_t kGrain = 16384;

  static std::int64_t last(const Loops& loops, std::size_t k) {
    return loops.shape.rank() == 0 ? 0 : loops.strides[k][loops.shape.rank() - 1];
  }

  void one_line(std::int64_t index, std::int64_t line, const T* a, const T* b, T* c) const {
    for (int d = result.shape.rank() - 2; d >= 0; --d) {
      const std::int64_t at = index % result.shape[d];
      index /= result.shape[d];
      a += at * result.strides[0][d];
      b += at * result.strides[1][d];
      c += at * result.strides[2][d];
    }
    const std::int64_t sa = last(result, 0), sb = last(result, 1), sc = last(result, 2);
    if (summed.shape.rank() == 0) return multiply<false>(a, sa, b, sb, c, sc, line);
    // Contiguous lines of the result are accumulated as a whole; otherwise each element is summed along its own line.
    if (line >= 8 && sc == 1 && (sa | sb) == 1) {
      std::fill_n(c, line, T{0});
      for_each_offset<2>(summed.shape, {summed.strides[0], summed.strides[1]},
                         [&](const auto& at) { multiply<true>(a + at[0], sa, b + at[1], sb, c, 1, line); });
      return;
    }
    for (std::int64_t j = 0; j < line; ++j) c[j * sc] = static_cast<T>(sum(a + j * sa, b + j * sb));
  }

  template <bool add>
  static void multiply(const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* c, std::int64_t sc,
                       std::int64_t n) {
    const auto put = [](T& to, T value) { to = add ? to + value : value; };
    if (sa == 1 && sb == 1 && sc == 1) {
      for (std::int64_t j = 0; j < n; ++j) put(c[j], a[j] * b[j]);
    } else if (sa == 1 && sb == 0 && sc == 1) {
      for (std::int64_t j = 0; j < n; ++j) put(c[j], a[j] * b[0]);
    } else if (sa == 0 && sb == 1 && sc == 1) {
      for (std::int64_t j = 0; j < n; ++j) put(c[j], a[0] * b[j]);
    } else {
      for (std::int64_t j = 0; j < n; ++j) put(c[j * sc], a[j * sa] * b[j * sb]);
    }
  }

  double sum(const T* a, const T* b) const {
    Shape outer = summed.shape;
    const std::int64_t n = outer.back(), sa = last(summed, 0), sb = last(summed, 1);
    outer.erase(outer.rank() - 1);
    double total = 0;
    for_each_offset<2>(outer, {summed.strides[0], summed.strides[1]}, [&](const auto& at) {
      const T *x = a + at[0], *y = b + at[1];
      if (sa == 1 && (sb == 0 || sb == 1)) {
        total += sb == 1 ? dense<1>(x, y, n) : dense<0>(x, y, n);
      } else {
        for (std::int64_t i = 0; i < n; ++i) total += static_cast<double>(x[i * sa]) * static_cast<double>(y[i * sb]);
      }
    });
    return total;
  }

  // Dot product with independent partial sums, which the compiler vectorises.
  template <int step>
  static double dense(const T* a, const T* b, std::int64_t n) {
    constexpr std::int64_t kSums = 16, kPiece = 1024;
    double total = 0;
    std::int64_t i = 0;
    while (i + kSums <= n) {
      T sums[kSums] = {};
      const std::int64_t end = std::min(n, i + kPiece);
      for (; i + kSums <= end; i += kSums) {
        for (std::int64_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[(i + j) * step];
      }
      for (const T s : sums) total += static_cast<double>(s);
    }
    for (; i < n; ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i * step]);
    return total;
  }
};

}  // namespace starling::kernels
