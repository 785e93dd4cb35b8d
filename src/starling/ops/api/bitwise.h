#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Bitwise ops on integers; and, or, xor and not also on bools. Operands broadcast and are promoted to one dtype.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);  // bools: logical_not

// Integer shifts; right shifts are arithmetic. A negative shift, or one by the bit width or more, shifts out every bit.
Tensor left_shift(const Tensor& x, const Tensor& bits);
Tensor right_shift(const Tensor& x, const Tensor& bits);

inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

}  // namespace starling
