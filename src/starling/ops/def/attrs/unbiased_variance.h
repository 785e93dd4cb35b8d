#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Unbiased variances [c] from biased ones of the channels of x [n, c, ...]: times m / (m - 1), with m the number of
// elements of a channel; times 1 if m = 1. Only the shape of x matters. If each rank of a data-parallel run has
// statistics of its own rows (batch_norm without global statistics), m counts those rows.
Tensor unbiased_variance(const Tensor& x, const Tensor& var);

}  // namespace starling
