#pragma once

#include "starling/ops/def/attrs/matmul.h"
#include "starling/tensor/tensor.h"

namespace starling {

// [.., m, k] · [.., k, n] → [.., m, n]; leading dimensions broadcast. A transposed operand is given as [.., k, m] /
// [.., n, k]. A vector [k] is a row on the left and a column on the right, and the result loses that dimension; it
// cannot be transposed. Floats, i32 and i64 (which wrap).
Tensor matmul(const Tensor& a, const Tensor& b, const op::MatmulAttrs& attrs = {});

// x [.., in] · weight [out, in]ᵀ + bias [out] → [.., out], then the named unary op (relu, tanh and sigmoid are fused).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const op::LinearAttrs& attrs = {});

}  // namespace starling
