#pragma once

#include "starling/ops/api/activation.h"
#include "starling/ops/api/rounding.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Elementwise unary ops. Floats, and integers where noted (they wrap around).
Tensor neg(const Tensor& x);     // also integers
Tensor abs(const Tensor& x);     // also integers
Tensor sign(const Tensor& x);    // -1, 0 or 1; zeros and NaN are kept; also integers; not differentiable
Tensor square(const Tensor& x);  // also integers
Tensor reciprocal(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  // 1 / √x

Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);  // eˣ - 1, precise near 0
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x), precise near 0
Tensor log2(const Tensor& x);

Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);

inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace starling
