#pragma once

#include "starling/ops/def/op_def.h"

namespace starling::rules {

// Helpers of matrix ops, on the last two dimensions of their operands.

void expect_matrix(const InferCall& call);  // floats, rank ≥ 2, sizes that fit LAPACK's integers
void expect_square(const InferCall& call);

Shape batch_of(const Shape& shape);  // all but the last two sizes
Shape matrices(Shape batch, std::int64_t rows, std::int64_t cols);

// [..] → [.., 1, 1]
Tensor as_matrix(const Tensor& x);
// [n, n] with 1 below the diagonal and ½ on it.
Tensor lower_half(std::int64_t n, DType dtype);

// Sharding along any leading dimension.
ShardRule shard_matrices(const ShardCall& call);

// Sample matrix with a dominant diagonal, far from singular.
OpCase square_case(const Shape& shape, double diagonal = 4, const Attrs& attrs = {});

}  // namespace starling::rules
