#pragma once

#include <limits>

#include "starling/ops/def/attrs/reduce.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Reductions. Sums and products of integers and booleans are i64 (they wrap); floats keep their dtype. Of no elements a
// sum is 0, a product 1, a mean NaN, and max and min throw.
Tensor sum(const Tensor& x, const op::ReduceAttrs& attrs = {});
Tensor mean(const Tensor& x, const op::ReduceAttrs& attrs = {});
Tensor prod(const Tensor& x, const op::ReduceAttrs& attrs = {});  // gradient is correct at zero factors
// NaN if an element is NaN. Gradients go to the first of equal values.
Tensor max(const Tensor& x, const op::ReduceAttrs& attrs = {});
Tensor min(const Tensor& x, const op::ReduceAttrs& attrs = {});
// True if any element, or every one, is nonzero (NaN is nonzero). Of no elements: false, true.
Tensor any(const Tensor& x, const op::ReduceAttrs& attrs = {});
Tensor all(const Tensor& x, const op::ReduceAttrs& attrs = {});
// log Σ eˣ without overflow; -inf for no elements and where all are -inf, with a zero gradient there.
Tensor logsumexp(const Tensor& x, const op::ReduceAttrs& attrs = {});

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// (Σ |x|ᵖ)^(1/p); max |x| for p = infinity. The gradient at 0 is 0; that of max |x| goes to the first maximum.
Tensor norm(const Tensor& x, const op::NormAttrs& attrs = {});

}  // namespace starling
