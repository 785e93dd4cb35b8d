#pragma once

#include <random>
#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling::testing {

// Operands of a sample call. Floats are drawn as `floats`; other dtypes, and f32 operands of fixed dtype such as
// learning rates, stay as they are.
struct Drawn {
  std::vector<Tensor> in;
  std::span<const Tensor> span() const { return in; }
};
Drawn draw(const OpCase& sample, DType floats, unsigned seed = 7);

// Copy with dimensions in reverse memory order: not contiguous if the shape allows it.
Tensor strided_copy(const Tensor& tensor);

// Attributes of a sample for operands drawn as `floats`: dtypes that say f64 follow.
Attrs attrs_for(const OpCase& sample, DType floats);

// The largest difference between analytic and numeric gradients over sampled elements, relative to 1 + |gradient|.
// `order` 1 differentiates the op, 2 differentiates its gradient.
struct GradCheck {
  double worst = 0;
  int compared = 0;
};
GradCheck check_gradient(const OpDef& op, const OpCase& sample, int order = 1);

// Largest |a - b| relative to 1 + |b|; infinite when shapes, dtypes or NaNs differ.
double difference(const Tensor& a, const Tensor& b);

std::string describe(const OpDef& op, const OpCase& sample);

// All ops, or those named in the environment variable STARLING_OPS, separated by commas.
std::vector<const OpDef*> tested_ops();
// Every kShards-th op from the given one on: long checks are split so that parts run concurrently.
inline constexpr int kShards = 4;
std::vector<const OpDef*> tested_ops(int shard);

// True for control flow ops and ops with effects (queues, files), whose sample calls cannot be repeated: they have
// their own tests and need no cases.
bool is_graph_only(const OpDef& op);

}  // namespace starling::testing
