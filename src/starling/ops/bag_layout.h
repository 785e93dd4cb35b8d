#pragma once

#include "starling/ops/embedding.h"
#include "starling/ops/op_def.h"

namespace starling {

// Reads the layout off the operands' types; throws "[op] expected …" where they fit none. `scaled`: a scale may follow.
BagLayout bag_layout(const OpDef& op, std::span<const TensorType> in, bool scaled = true);

}  // namespace starling

// What the definitions of ops on bags share.
namespace starling::bags {

void expect_rows(const InferCall& call);
void expect_no_scaled_mean(const InferCall& call, const BagLayout& layout, bool mean);
Shape with_rows(std::int64_t rows, const Shape& like);

// x with the other operands of a call, with or without the scale; which operand the scale is, -1 for none.
TensorList operands(const Tensor& x, const GradCall& c, bool scaled);
int scale_operand(const GradCall& c);

// Σ over the row of a · b, in the shape of the indices.
Tensor row_dots(const Tensor& a, const Tensor& b, const Shape& shape);

// A sample call: x over bags of indices below `high`, rows of 2-D indices or runs of `bags` by offsets.
OpCase sample(const Shape& x, const Shape& indices, std::int64_t high, const Attrs& attrs, std::int64_t bags = 0,
              bool scaled = false, bool distinct = false);

}  // namespace starling::bags
