#pragma once

#include "starling/ops/def/attrs/embedding.h"
#include "starling/ops/def/op_def.h"

namespace starling {

// Tells the operands apart by their types; throws "[op] expected …" if they fit none. `scaled`: a
// scale operand is allowed.
op::BagOperands bag_operands(const OpDef& op, std::span<const TensorType> in, bool scaled = true);

}  // namespace starling

// Helpers of the definitions of bag ops.
namespace starling::bags {

void expect_rows(const InferCall& call);
void expect_no_scaled_mean(const InferCall& call, const op::BagOperands& operands, bool mean);
Shape with_rows(std::int64_t rows, const Shape& like);

// operands(): x followed by the other operands of a call, with or without the scale. scale_operand(): index of the
// scale, -1 for none.
TensorList operands(const Tensor& x, const GradCall& c, bool scaled);
int scale_operand(const GradCall& c);

// Σ over each row of a · b, in the shape of the indices.
Tensor row_dots(const Tensor& a, const Tensor& b, const Shape& shape);

// Sample call: x over bags of indices below `high`, rows of 2-D indices or runs of `bags` by offsets.
OpCase sample(const Shape& x, const Shape& indices, std::int64_t high, const Attrs& attrs, std::int64_t bags = 0,
              bool scaled = false, bool distinct = false);

}  // namespace starling::bags
