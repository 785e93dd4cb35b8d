#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct VarAttrs {
  Shape axes{};  // empty: all
  std::int64_t correction = 1;
  bool keepdim = false;
  static AttrFields fields() {
    return {field("axes", &VarAttrs::axes), field("correction", &VarAttrs::correction),
            field("keepdim", &VarAttrs::keepdim)};
  }
};

// Σ (x - mean)² / (n - correction) of floats, from centred values: right also where the mean is large. NaN or infinite
// where n ≤ correction.
Tensor var(const Tensor& x, const VarAttrs& attrs = {});
// Its square root (the op "std"); the gradient is 0 where it is 0.
Tensor stddev(const Tensor& x, const VarAttrs& attrs = {});

}  // namespace starling
