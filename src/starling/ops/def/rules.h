#pragma once

#include "starling/ops/def/op_def.h"

namespace starling::rules {

// Type inference, sharding and checks common to many families.

// Inference of elementwise ops: one dtype, shapes broadcast; the bool form is for comparisons.
Types infer_broadcast(const InferCall& call);
Types infer_broadcast_bool(const InferCall& call);
Types infer_broadcast_ordered(const InferCall& call);  // all but u64
Types infer_same(const InferCall& call);               // every output has the first input's type

void expect_float(const InferCall& call, int input = 0);
void expect_same_dtype(const InferCall& call);
// Refuses u64: integers are compared and divided as i64, where its upper half would be negative.
void expect_ordered(const InferCall& call);
void expect_rank(const InferCall& call, int input, int rank);

// Elementwise: all operands are split along the same dimension; anything else is replicated.
ShardRule shard_elementwise(const ShardCall& call);
// Ops linear in their only tensor operand: partial sums pass through as well.
ShardRule shard_linear_elementwise(const ShardCall& call);
// add, sub: partial terms of both sides may be added before the reduction.
ShardRule shard_additive(const ShardCall& call);
// mul, div: one partial factor passes through if the other is replicated.
ShardRule shard_multiplicative(const ShardCall& call);
// Row-wise ops: operands in `batched` (a bit mask) and all outputs may be split along dimension 0.
ShardRule shard_batch(const ShardCall& call, std::uint32_t batched);
ShardRule shard_replicated(const ShardCall& call);
// Ops along one axis: operands split equally along any other axis stay so, and so do the results.
ShardRule shard_other_axes(const ShardCall& call, std::int64_t axis);
// If an operand is split along `dim`: all operands are split there and the results along `out`, provided that every
// operand has that dimension in the same size; `out` < 0: the dimension is not kept.
ShardRule shard_kept(const ShardCall& call, int dim, int out);
int split_dim(const ShardCall& call);  // of the first split operand, else -1

// Sum of a gradient over broadcast dimensions.
Tensor sum_to(const Tensor& tensor, const Shape& shape);

// f16 and bf16 as f32, others unchanged: a sum that is divided later must not be rounded, or overflow, in 16 bits.
Tensor widened(const Tensor& x);

}  // namespace starling::rules
