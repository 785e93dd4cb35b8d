#pragma once

#include "starling/ops/api/bitwise.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/select.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Binary ops: operands broadcast; different dtypes are promoted first. Integers wrap around.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);      // integers: truncated towards zero
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN if either is NaN
Tensor minimum(const Tensor& a, const Tensor& b);

// Integer division and remainders. Integers divided by 0 throw.
Tensor floor_div(const Tensor& a, const Tensor& b);  // floor(a / b)
Tensor mod(const Tensor& a, const Tensor& b);        // a - b · floor(a / b), with the sign of b
Tensor fmod(const Tensor& a, const Tensor& b);       // a - b · trunc(a / b), with the sign of a

// aᵇ. Negative floats require whole exponents; integers require exponents ≥ 0.
Tensor pow(const Tensor& a, const Tensor& b);
// Angle of the point (x, y), in [-π, π].
Tensor atan2(const Tensor& y, const Tensor& x);

// Comparisons return bool.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

// Tensor-scalar forms: the number takes the tensor's dtype.
Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor mul(const Tensor& a, double b);
Tensor div(const Tensor& a, double b);
Tensor div(double a, const Tensor& b);
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);
Tensor floor_div(const Tensor& a, double b);
Tensor mod(const Tensor& a, double b);
Tensor fmod(const Tensor& a, double b);
Tensor pow(const Tensor& a, double b);  // 2, 1/2, -1/2 and -1 use cheaper ops
Tensor pow(double a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return div(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(double a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(double a, const Tensor& b) { return div(a, b); }

inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }

}  // namespace starling
