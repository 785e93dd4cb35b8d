#include "starling/nn/orthogonal.h"

#include <cmath>
#include <cstddef>

#include "starling/base/parallel.h"

namespace starling::nn {
namespace {

double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void scale_to_one(double* row, std::size_t n) {
  const double length = std::sqrt(dot(row, row, n));
  for (std::size_t i = 0; i < n; ++i) row[i] /= length;
}

std::vector<double> transposed(const std::vector<double>& m, std::size_t rows, std::size_t columns) {
  std::vector<double> other(m.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) other[c * rows + r] = m[r * columns + c];
  }
  return other;
}

// Modified Gram-Schmidt: each finished row is subtracted from all that follow, in parallel. Two rounds give full
// precision.
void orthonormal_rows(std::vector<double>& m, std::size_t rows, std::size_t n) {
  for (int round = 0; round < 2; ++round) {
    for (std::size_t r = 0; r < rows; ++r) {
      double* done = m.data() + r * n;
      scale_to_one(done, n);
      const auto rest = static_cast<std::int64_t>(rows - r - 1);
      const auto grain = static_cast<std::int64_t>(1 + 65536 / n);
      parallel_for(rest, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          double* row = m.data() + (r + 1 + static_cast<std::size_t>(k)) * n;
          const double along = dot(done, row, n);
          for (std::size_t i = 0; i < n; ++i) row[i] -= along * done[i];
        }
      });
    }
  }
}

}  // namespace

void orthonormalise(std::vector<double>& matrix, std::int64_t rows, std::int64_t columns) {
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  if (r <= c) return orthonormal_rows(matrix, r, c);
  std::vector<double> other = transposed(matrix, r, c);
  orthonormal_rows(other, c, r);
  matrix = transposed(other, c, r);
}

}  // namespace starling::nn
