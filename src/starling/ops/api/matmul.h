#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct MatmulAttrs {
  bool trans_a = false;
  bool trans_b = false;
  static AttrFields fields() {
    return {field("trans_a", &MatmulAttrs::trans_a), field("trans_b", &MatmulAttrs::trans_b)};
  }
};

// [.., m, k] · [.., k, n] → [.., m, n]; leading dimensions broadcast. A transposed operand is given as [.., k, m] /
// [.., n, k]. A vector [k] is a row on the left and a column on the right, and the result loses that dimension; it
// cannot be transposed. Floats, i32 and i64 (which wrap).
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulAttrs& attrs = {});

struct LinearAttrs {
  Symbol activation{};  // none (empty), relu, tanh, sigmoid
  static AttrFields fields() { return {field("activation", &LinearAttrs::activation)}; }
};

// x [.., in] · weight [out, in]ᵀ + bias [out] → [.., out], then the named unary op (the three above are fused).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const LinearAttrs& attrs = {});

// Product with the gradient of an activation as epilogue: matmul · act'(y), from the saved output y of the activation.
struct MatmulActAttrs {
  bool trans_a = false;
  bool trans_b = false;
  Symbol activation{};
  static AttrFields fields() {
    return {field("trans_a", &MatmulActAttrs::trans_a), field("trans_b", &MatmulActAttrs::trans_b),
            field("activation", &MatmulActAttrs::activation)};
  }
};

// Gradient of a named activation, from its output: dy · act'(y).
Tensor activation_backward(Symbol activation, const Tensor& dy, const Tensor& y);
Tensor activate(Symbol activation, const Tensor& x);

}  // namespace starling
