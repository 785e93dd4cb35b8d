#pragma once

#include "starling/ops/op_def.h"

namespace starling {

// What follows x · weightᵀ in the same op, in this order; rewrites of graphs make it, users write the parts.
struct LinearEndsAttrs {
  bool biased = false;    // a bias [out] is an operand
  bool residual = false;  // a tensor like the result is the last operand, added before the activation
  Symbol activation{};    // an elementwise op of one float operand, or none
  double parameter = 0;   // of the activation, where it has one
  bool keep = false;      // the value before the activation is a second result
  static AttrFields fields() {
    return {field("biased", &LinearEndsAttrs::biased), field("residual", &LinearEndsAttrs::residual),
            field("activation", &LinearEndsAttrs::activation), field("parameter", &LinearEndsAttrs::parameter),
            field("keep", &LinearEndsAttrs::keep)};
  }
};

// The op by this name if it can end a product: elementwise, of one float operand and at most one number; else null.
const OpDef* ending_op(Symbol activation);
// Its attributes with that number.
Attrs ending_attrs(const OpDef& op, double parameter);

}  // namespace starling
