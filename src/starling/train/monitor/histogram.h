#pragma once

#include <cstdint>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// How the values of a tensor are spread, in buckets that grow by a tenth: exact enough to draw, and the same limits at
// every step, so that steps compare.
struct Histogram {
  double min = 0;  // of the finite values; min, max, sum and sum_squares are 0 when there is none
  double max = 0;
  double sum = 0;
  double sum_squares = 0;
  std::int64_t count = 0;       // of finite values
  std::int64_t not_finite = 0;  // NaN and infinities, in no bucket
  // Values v with limits[i - 1] <= v < limits[i] are in counts[i] (the first bucket is open below). Empty buckets stand
  // for whole gaps.
  std::vector<double> limits{};
  std::vector<std::int64_t> counts{};

  double norm() const;  // L2
};

// Of all values. The counts do not depend on the number of threads; the sums may in their last bits.
Histogram histogram_of(const Tensor& tensor);

// Every limit there is, ascending: -1e20 … -1e-12, 0, 1e-12 … 1e20, the largest double.
const std::vector<double>& histogram_limits();

// The L2 norm of a, and of a - b; both of the same dtype (a float one) and size.
double norm(const Tensor& a);
double distance(const Tensor& a, const Tensor& b);

}  // namespace starling
