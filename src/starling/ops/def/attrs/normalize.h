#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct EpsAttrs {
  double eps = 1e-5;
  static AttrFields fields() { return {field("eps", &EpsAttrs::eps)}; }
};
// Σ (x - mean)² of every channel of x [n, c, ...].
Tensor channel_squares(const Tensor& x, const Tensor& mean);

struct LayerNormAttrs {
  std::int64_t dims = 1;  // number of trailing dimensions normalised together
  double eps = 1e-5;
  static AttrFields fields() { return {field("dims", &LayerNormAttrs::dims), field("eps", &LayerNormAttrs::eps)}; }
};

struct GroupNormAttrs {
  std::int64_t groups = 1;
  double eps = 1e-5;
  static AttrFields fields() { return {field("groups", &GroupNormAttrs::groups), field("eps", &GroupNormAttrs::eps)}; }
};

}  // namespace starling::op
