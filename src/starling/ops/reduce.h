#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ReduceAttrs {
  Shape axes{};  // empty: all
  bool keepdim = false;
  static AttrFields fields() { return {field("axes", &ReduceAttrs::axes), field("keepdim", &ReduceAttrs::keepdim)}; }
};

Tensor sum(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor mean(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor max(const Tensor& x, const ReduceAttrs& attrs = {});  // gradients go to the first of equal values

// The axes in [0, rank), sorted, all of them when none are named; throws on doubles.
Shape reduced_axes(const Shape& axes, int rank, const char* who);
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim);

}  // namespace starling
