#pragma once

#include <algorithm>
#include <cstdint>

namespace starling::kernels {

// Inner loops of variances and of batch, layer, group and RMS normalisation, for float or double. All run on the
// calling thread and never allocate. Sums go through short partial sums in T that are added in double.

// Pieces of `length` contiguous elements, `count` of them `stride` apart: one channel of a batch of images.
struct Runs {
  std::int64_t count = 1;
  std::int64_t stride = 0;
  std::int64_t length = 0;
};

// Largest number of columns of the column functions.
inline constexpr std::int64_t kMomentColumns = 1024;
// Columns per strip when threads share `columns`: wide strips read memory in order.
inline std::int64_t column_strip(std::int64_t columns, int threads) {
  const std::int64_t share = (columns + threads - 1) / threads;
  return std::clamp<std::int64_t>((share + 63) / 64 * 64, 64, kMomentColumns);
}

template <class T>
struct NormalizeFns {
  // Mean and sum of squared deviations, in one pass over memory.
  void (*moments)(const T* x, const Runs& runs, double* mean, double* m2);
  // Σ dy and Σ dy · (x - centre).
  void (*dots)(const T* dy, const T* x, const Runs& runs, T centre, double* sum, double* dot);
  // y = (x - mean) · scale + shift
  void (*affine)(const T* x, T* y, const Runs& runs, T mean, T scale, T shift);
  // dx = dy · a + (x - mean) · b + c
  void (*affine_back)(const T* dy, const T* x, T* dx, const Runs& runs, T a, T mean, T b, T c);

  // Variants on neighbouring channels of `length` elements each, with a weight and shift per channel (1 and 0 if null):
  // short channels are pipelined this way.
  void (*dots_each)(const T* dy, const T* x, std::int64_t channels, std::int64_t length, T centre, double* sum,
                    double* dot);
  void (*affine_each)(const T* x, T* y, std::int64_t channels, std::int64_t length, T mean, T scale, const T* weight,
                      const T* shift);
  void (*affine_back_each)(const T* dy, const T* x, T* dx, std::int64_t channels, std::int64_t length, T a,
                           const T* weight, T mean, T b, T c);

  // Row functions with a weight and a shift per element, both optional (null).
  void (*row)(const T* x, T* y, std::int64_t n, T mean, T scale, const T* weight, const T* shift);
  // Σ dy · w and Σ dy · w · (x - mean).
  void (*row_dots)(const T* dy, const T* x, const T* weight, std::int64_t n, T mean, double* sum, double* dot);
  // dx = dy · w · a + (x - mean) · b + c; weight_sum += dy · (x - mean) · a and shift_sum += dy unless null.
  void (*row_back)(const T* dy, const T* x, const T* weight, T* dx, std::int64_t n, T a, T mean, T b, T c,
                   T* weight_sum, T* shift_sum);

  // Variants on columns (at most kMomentColumns) of rows that lie `stride` apart.
  void (*column_moments)(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t cols, double* mean,
                         double* m2);
  void (*column_dots)(const T* dy, const T* x, std::int64_t rows, std::int64_t stride, std::int64_t cols, const T* mean,
                      double* sum, double* dot);
  // dx = dy · a + (x - mean) · b + c with a, mean, b, c per element; a null dy counts as 0.
  void (*column_affine)(const T* dy, const T* x, T* dx, std::int64_t n, const T* a, const T* mean, const T* b,
                        const T* c);
};

template <class T>
NormalizeFns<T> normalize_fns();  // for this machine's instruction set

// Mergeable statistics: element count, mean and sum of squared deviations.
struct Moments {
  double count = 0;
  double mean = 0;
  double m2 = 0;
  void add(const Moments& other) {
    if (other.count == 0) return;
    const double total = count + other.count, apart = other.mean - mean;
    m2 += other.m2 + apart * apart * (count * other.count / total);
    mean += apart * (other.count / total);
    count = total;
  }
};

}  // namespace starling::kernels
