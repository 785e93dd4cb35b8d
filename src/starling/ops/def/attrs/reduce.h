#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct ReduceAttrs {
  Shape axes{};  // empty: all
  bool keepdim = false;
  static AttrFields fields() { return {field("axes", &ReduceAttrs::axes), field("keepdim", &ReduceAttrs::keepdim)}; }
};

struct NormAttrs {
  double p = 2;  // > 0, or infinity
  Shape axes{};
  bool keepdim = false;
  static AttrFields fields() {
    return {field("p", &NormAttrs::p), field("axes", &NormAttrs::axes), field("keepdim", &NormAttrs::keepdim)};
  }
};

// Axes normalised to [0, rank) and sorted, all if none are given; throws on duplicates.
Shape reduced_axes(const Shape& axes, int rank, const char* who);
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim);
double reduced_count(const Shape& shape, const Shape& axes);
// with_lost_dims(): a reduced tensor with its reduced dimensions back as 1. spread(): broadcast to the original shape.
Tensor with_lost_dims(const Tensor& reduced, const Shape& shape, const Shape& axes);
Tensor spread(const Tensor& reduced, const Shape& shape, const Shape& axes);

}  // namespace starling::op
