#pragma once

#include <limits>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ReduceAttrs {
  Shape axes{};  // empty: all
  bool keepdim = false;
  static AttrFields fields() { return {field("axes", &ReduceAttrs::axes), field("keepdim", &ReduceAttrs::keepdim)}; }
};

// Reductions. Sums and products of integers and booleans are i64 (they wrap); floats keep their dtype. Of no elements a
// sum is 0, a product 1, a mean NaN, and max and min throw.
Tensor sum(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor mean(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor prod(const Tensor& x, const ReduceAttrs& attrs = {});  // gradient is correct at zero factors
// NaN if an element is NaN. Gradients go to the first of equal values.
Tensor max(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor min(const Tensor& x, const ReduceAttrs& attrs = {});
// True if any element, or every one, is nonzero (NaN is nonzero). Of no elements: false, true.
Tensor any(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor all(const Tensor& x, const ReduceAttrs& attrs = {});
// log Σ eˣ without overflow; -inf for no elements and where all are -inf, with a zero gradient there.
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
// (Σ |x|ᵖ)^(1/p); max |x| for p = infinity. The gradient at 0 is 0; that of max |x| goes to the first maximum.
Tensor norm(const Tensor& x, const NormAttrs& attrs = {});

// Axes normalised to [0, rank) and sorted, all if none are given; throws on duplicates.
Shape reduced_axes(const Shape& axes, int rank, const char* who);
Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim);
double reduced_count(const Shape& shape, const Shape& axes);
// with_lost_dims(): a reduced tensor with its reduced dimensions back as 1. spread(): broadcast to the original shape.
Tensor with_lost_dims(const Tensor& reduced, const Shape& shape, const Shape& axes);
Tensor spread(const Tensor& reduced, const Shape& shape, const Shape& axes);

}  // namespace starling
