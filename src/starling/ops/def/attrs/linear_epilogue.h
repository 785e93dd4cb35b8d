#pragma once

#include "starling/ops/def/op_def.h"

namespace starling {

namespace op {

// Epilogue of x · weightᵀ, applied in this order; made by graph rewrites, while users write the parts.
struct LinearEpilogueAttrs {
  bool biased = false;    // operands include a bias [out]
  bool residual = false;  // the last operand, of the result's type, is added before the activation
  Symbol activation{};    // elementwise op of one float operand, or none
  double parameter = 0;   // attribute of the activation, if it has one
  bool keep = false;      // the value before the activation is a second result
  static AttrFields fields() {
    return {field("biased", &LinearEpilogueAttrs::biased), field("residual", &LinearEpilogueAttrs::residual),
            field("activation", &LinearEpilogueAttrs::activation), field("parameter", &LinearEpilogueAttrs::parameter),
            field("keep", &LinearEpilogueAttrs::keep)};
  }
};

}  // namespace op

// Op of this name if it can be an epilogue: elementwise, with one float operand and at most one numeric attribute; else
// null.
const OpDef* ending_op(Symbol activation);
// Attributes of that op with its parameter.
Attrs ending_attrs(const OpDef& op, double parameter);

}  // namespace starling
