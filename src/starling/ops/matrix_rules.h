#pragma once

#include "starling/ops/op_def.h"

namespace starling::rules {

// What ops on matrices, in the last two dimensions of their operands, share.

void expect_matrix(const InferCall& call);  // floats, rank 2 or more, sizes that LAPACK's integers can count
void expect_square(const InferCall& call);

Shape batch_of(const Shape& shape);  // without the last two
Shape matrices(Shape batch, std::int64_t rows, std::int64_t cols);

// [..] → [.., 1, 1]
Tensor as_matrix(const Tensor& x);
// [n, n] with 1 below the diagonal and ½ on it.
Tensor lower_half(std::int64_t n, DType dtype);

// Any leading dimension may be cut.
ShardRule shard_matrices(const ShardCall& call);

// A matrix whose diagonal is large enough for it to be far from singular.
OpCase square_case(const Shape& shape, double diagonal = 4, const Attrs& attrs = {});

}  // namespace starling::rules
