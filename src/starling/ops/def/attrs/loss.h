#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {
struct LossOptions;
}

namespace starling::op {

struct NllAttrs {
  std::int64_t ignore_index = -100;
  static AttrFields fields() { return {field("ignore_index", &NllAttrs::ignore_index)}; }
};

// label_pick: x [n, classes, d...] at the labels [n, d...], 0 if ignored. label_place, its adjoint: y at the labels, 0
// elsewhere.
Tensor label_pick(const Tensor& x, const Tensor& labels, std::int64_t ignore_index = -100);
Tensor label_place(const Tensor& y, const Tensor& labels, std::int64_t classes, std::int64_t ignore_index = -100);

// total / weight, both scalars; where all is ignored, so that the weight is 0: NaN with a gradient of 0.
Tensor weighted_mean(const Tensor& total, const Tensor& weight);

struct CtcAttrs {
  std::int64_t blank = 0;
  bool zero_infinity = false;
  static AttrFields fields() {
    return {field("blank", &CtcAttrs::blank), field("zero_infinity", &CtcAttrs::zero_infinity)};
  }
};

// Reduces per-sample losses to the weighted mean or sum that the options ask for.
Tensor reduce_loss(const Tensor& losses, const LossOptions& options, const char* who);

}  // namespace starling::op
