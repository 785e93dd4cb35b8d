#pragma once

#include <cstdint>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::train {

// Histogram of a tensor's values. Buckets grow by a tenth and have the same limits at every step, so that steps
// compare.
struct Histogram {
  double min = 0;  // of the finite values; min, max, sum and sum_squares are 0 if there is none
  double max = 0;
  double sum = 0;
  double sum_squares = 0;
  std::int64_t count = 0;       // finite values
  std::int64_t not_finite = 0;  // NaN and infinities, in no bucket
  // counts[i] counts values v with limits[i - 1] <= v < limits[i] (the first bucket is open below). Runs of empty
  // buckets are merged into one.
  std::vector<double> limits{};
  std::vector<std::int64_t> counts{};

  double norm() const;  // L2
};

// Histogram of all values. Counts do not depend on the number of threads; sums may in their last bits.
Histogram histogram_of(const Tensor& tensor);

// All bucket limits, ascending: -1e20 … -1e-12, 0, 1e-12 … 1e20, the largest double.
const std::vector<double>& histogram_limits();

// L2 norm of a, and of a - b; both of the same float dtype and size.
double norm(const Tensor& a);
double distance(const Tensor& a, const Tensor& b);

}  // namespace starling::train
