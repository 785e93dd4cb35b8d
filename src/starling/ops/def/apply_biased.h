#pragma once

#include "starling/ops/def/apply.h"

namespace starling {

// Applies an op whose third operand, a bias, may be missing.
inline Tensor apply_biased(const OpDef& op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Attrs& attrs) {
  if (bias.defined()) return apply1(op, {x, weight, bias}, attrs);
  return apply1(op, {x, weight}, attrs);
}

}  // namespace starling
