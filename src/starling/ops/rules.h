#pragma once

#include "starling/ops/op_def.h"

namespace starling::rules {

// Shape inference, sharding and checks that many families share.

// One dtype, shapes broadcast together: elementwise ops. `result` overrides the output dtype (comparisons give bool).
Types infer_broadcast(const InferCall& call);
Types infer_broadcast_bool(const InferCall& call);
Types infer_broadcast_ordered(const InferCall& call);  // all but u64
Types infer_same(const InferCall& call);               // every output is like the first input

void expect_float(const InferCall& call, int input = 0);
void expect_same_dtype(const InferCall& call);
// All but u64: integers are compared and divided as i64, where its upper half would be negative.
void expect_ordered(const InferCall& call);
void expect_rank(const InferCall& call, int input, int rank);

// Elementwise: operands are cut alike along the dimension that is split; anything else becomes replicated.
ShardRule shard_elementwise(const ShardCall& call);
// Ops linear in their only tensor operand also let partial sums through.
ShardRule shard_linear_elementwise(const ShardCall& call);
// add, sub: terms of both sides may be added before they are reduced.
ShardRule shard_additive(const ShardCall& call);
// mul, div: one partial factor passes if the other is replicated.
ShardRule shard_multiplicative(const ShardCall& call);
// Row-wise ops: every operand in `batched` (a bit mask) and every output may be split along dimension 0.
ShardRule shard_batch(const ShardCall& call, std::uint32_t batched);
ShardRule shard_replicated(const ShardCall& call);
// Ops that work along one axis: operands alike in any other way stay as they are, and so do the results.
ShardRule shard_other_axes(const ShardCall& call, std::int64_t axis);
// Where an operand is split along a dimension: all operands split alike and the results split along `out`, provided
// that every operand has that dimension in the same size; `out` < 0: the dimension does not pass.
ShardRule shard_kept(const ShardCall& call, int dim, int out);
int split_dim(const ShardCall& call);  // of the first operand that is split, else -1

// The sum of a gradient over the dimensions that broadcasting stretched.
Tensor sum_to(const Tensor& tensor, const Shape& shape);

// Halves as f32, anything else as it is: a sum that is divided later must not be rounded, or overflow, in 16 bits.
Tensor widened(const Tensor& x);

}  // namespace starling::rules
