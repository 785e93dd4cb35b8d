#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// The biased variances [c] of the channels of x [n, c, ...] made unbiased: times m / (m - 1), m being the number of
// elements of a channel; 1 where there is but one. Only the shape of x matters. Where each rank of a data-parallel run
// has statistics of its own rows (batch_norm without global statistics), m counts those rows.
Tensor unbiased_variance(const Tensor& x, const Tensor& var);

}  // namespace starling
