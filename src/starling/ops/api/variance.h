#pragma once

#include "starling/ops/def/attrs.h"
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

// Σ (x - mean)² / (n - correction) of floats, from centred values: accurate for large means. NaN or infinite if n ≤
// correction.
Tensor var(const Tensor& x, const VarAttrs& attrs = {});
// Square root of var (the op "std"); the gradient is 0 where it is 0.
Tensor stddev(const Tensor& x, const VarAttrs& attrs = {});

}  // namespace starling
