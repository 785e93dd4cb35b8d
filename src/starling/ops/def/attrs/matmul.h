#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct MatmulAttrs {
  bool trans_a = false;
  bool trans_b = false;
  static AttrFields fields() {
    return {field("trans_a", &MatmulAttrs::trans_a), field("trans_b", &MatmulAttrs::trans_b)};
  }
};

struct LinearAttrs {
  Symbol activation{};  // none (empty), relu, tanh, sigmoid
  static AttrFields fields() { return {field("activation", &LinearAttrs::activation)}; }
};

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

}  // namespace starling::op
