#pragma once

#include <limits>

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ReduceAttrs {
  Shape axes{};  // empty: all
  bool keepdim = false;
  static AttrFields fields() { return {field("axes", &ReduceAttrs::axes), field("keepdim", &ReduceAttrs::keepdim)}; }
};

// Sums and products of integers and booleans are i64 (they wrap); floats keep their dtype. Over nothing a sum is 0, a
// product 1, a mean NaN, and max and min refuse.
Tensor sum(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor mean(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor prod(const Tensor& x, const ReduceAttrs& attrs = {});  // its gradient is right where factors are zero
// NaN where an element is NaN. Gradients go to the first of equal values.
Tensor max(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor min(const Tensor& x, const ReduceAttrs& attrs = {});
// Whether any element, or every one, is not zero: bool. NaN is not zero. Over nothing: false, true.
Tensor any(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor all(const Tensor& x, const ReduceAttrs& attrs = {});
// log Σ eˣ without overflow; -inf over nothing and where all is -inf, with a gradient of 0 there.
Tensor logsumexp(const Tensor& x, const ReduceAttrs& attrs = {});

struct NormAttrs {
  double p = 2;  // > 0, or infinity
  Shape axes{};
  bool keepdim = false;
  static AttrFields fields() {
    return {field("p", &NormAttrs::p), field("axes", &NormAttrs::axes), field("keepdim", &NormAttrs::keepdim)};
  }
};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// (Σ |x|ᵖ)^(1/p); the largest |x| for p = infinity. Its gradient at 0 is 0; that of the largest goes to the first.
Tensor norm(const Tensor& x, const NormAttrs& attrs = {});

// The axes in [0, rank), sorted, all of them when none are named; throws on doubles.
Shape reduced_axes(const Shape& axes, int rank, const char* who);
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim);
double reduced_count(const Shape& shape, const Shape& axes);
// A reduced tensor with its lost dimensions back as 1, and stretched over the shape it came from.
Tensor with_lost_dims(const Tensor& reduced, const Shape& shape, const Shape& axes);
Tensor spread(const Tensor& reduced, const Shape& shape, const Shape& axes);

}  // namespace starling
