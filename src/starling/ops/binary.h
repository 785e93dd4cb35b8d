#pragma once

#include "starling/ops/bitwise.h"
#include "starling/ops/logical.h"
#include "starling/ops/select.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Two operands broadcast together; operands of different dtypes are promoted first. Integers wrap around.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);      // of integers, the quotient without its fraction
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN where either is
Tensor minimum(const Tensor& a, const Tensor& b);

// Division to whole numbers and what remains. Integers divided by 0 throw.
Tensor floor_div(const Tensor& a, const Tensor& b);  // the quotient's floor
Tensor mod(const Tensor& a, const Tensor& b);        // a - b · floor(a / b): the sign of b
Tensor fmod(const Tensor& a, const Tensor& b);       // a - b · trunc(a / b): the sign of a

// aᵇ. Negative floats have powers with whole exponents only; integers with exponents of 0 or more only.
Tensor pow(const Tensor& a, const Tensor& b);
// The angle of the point (x, y), in [-π, π].
Tensor atan2(const Tensor& y, const Tensor& x);

// Comparisons give bool.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);

// A number takes the dtype of the tensor beside it.
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
Tensor pow(const Tensor& a, double b);  // 2, 1/2, -1/2 and -1 as the cheaper ops
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
