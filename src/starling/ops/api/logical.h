#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Logical ops: nonzero numbers (and NaN) are true. Operands broadcast; the result is bool.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

// Tests on floats.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

inline Tensor operator!(const Tensor& x) { return logical_not(x); }

}  // namespace starling
