#include "starling/ops/def/rules.h"

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::rules {

void expect_same_dtype(const InferCall& call) {
  for (const auto& type : call.in) {
    check(type.dtype == call.in[0].dtype, "[{}] expected operands of one dtype, got {} and {}", call.op.name,
          name(call.in[0].dtype), name(type.dtype));
  }
}

void expect_ordered(const InferCall& call) {
  for (const auto& type : call.in) {
    if (type.dtype != DType::u64) continue;
    fail("[{}] expected floats or integers up to i64, got u64: it is for storage and conversion", call.op.name);
  }
}

void expect_float(const InferCall& call, int input) {
  const auto& type = call.in[static_cast<std::size_t>(input)];
  check(is_float(type.dtype), "[{}] expected floats, got {}", call.op.name, to_string(type));
}

void expect_rank(const InferCall& call, int input, int rank) {
  const auto& type = call.in[static_cast<std::size_t>(input)];
  check(type.shape.rank() == rank, "[{}] expected {} of rank {}, got {}", call.op.name,
        call.op.inputs[static_cast<std::size_t>(input)], rank, to_string(type));
}

Types infer_broadcast(const InferCall& call) {
  expect_same_dtype(call);
  Shape shape = call.in[0].shape;
  for (std::size_t i = 1; i < call.in.size(); ++i)
    shape = broadcast_shapes(shape, call.in[i].shape, call.op.name.c_str());
  return {TensorType{call.in[0].dtype, shape}};
}

Types infer_broadcast_bool(const InferCall& call) {
  Types types = infer_broadcast(call);
  types[0].dtype = DType::boolean;
  return types;
}

Types infer_broadcast_ordered(const InferCall& call) {
  expect_ordered(call);
  return infer_broadcast(call);
}

Types infer_same(const InferCall& call) {
  Types types;
  for (std::size_t i = 0; i < call.op.outputs.size(); ++i) types.push_back(call.in[0]);
  return types;
}

ShardRule shard_replicated(const ShardCall& call) {
  ShardRule rule;
  rule.in.resize(call.in.size());
  rule.out.resize(call.out.size());
  return rule;
}

namespace {

// Dimension of the output along which some input is split, or -1.
int split_of_output(const ShardCall& call) {
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.layouts[i].is_split()) continue;
    const int dim = call.layouts[i].dim + call.out[0].shape.rank() - call.in[i].shape.rank();
    if (call.in[i].shape[call.layouts[i].dim] == call.out[0].shape[dim]) return dim;
  }
  return -1;
}

// Layout of an operand for an output split along `dim`: split alike, or replicated if it is broadcast.
Layout operand_split(const TensorType& in, const TensorType& out, int dim) {
  const int own = dim - (out.shape.rank() - in.shape.rank());
  if (own < 0 || in.shape[own] != out.shape[dim]) return Layout::replicate();
  return Layout::split(own);
}

}  // namespace

ShardRule shard_elementwise(const ShardCall& call) {
  ShardRule rule = shard_replicated(call);
  const int dim = split_of_output(call);
  if (dim < 0) return rule;
  for (std::size_t i = 0; i < call.in.size(); ++i) rule.in[i] = operand_split(call.in[i], call.out[0], dim);
  for (auto& out : rule.out) out = Layout::split(dim);
  return rule;
}

ShardRule shard_linear_elementwise(const ShardCall& call) {
  // Partial sums pass through linear ops only, and not where every rank would drop its own fraction: a cast to integers
  // or to fewer bits is of the sum, which also keeps its exchange in the dtype that it has.
  const DType from = call.in[0].dtype, to = call.out[0].dtype;
  const bool keeps = from == to || (is_float(to) && size_of(to) > size_of(from));
  const bool linear = call.layouts[0] == Layout::partial() && keeps;
  if (!linear) return shard_elementwise(call);
  ShardRule rule = shard_replicated(call);
  rule.in[0] = rule.out[0] = call.layouts[0];
  return rule;
}

ShardRule shard_additive(const ShardCall& call) {
  const auto sum = Layout::partial();
  if (call.layouts[0] == sum && call.layouts[1] == sum && call.in[0].shape == call.in[1].shape) {
    return {{sum, sum}, {sum}};
  }
  return shard_elementwise(call);
}

ShardRule shard_multiplicative(const ShardCall& call) {
  const auto sum = Layout::partial();
  const bool divides = call.op.name == "div";
  const bool exact = !divides || is_float(call.in[0].dtype);  // integer quotients drop their fraction
  if (exact && call.layouts[0] == sum && call.layouts[1].is_replicate()) return {{sum, Layout::replicate()}, {sum}};
  if (!divides && call.layouts[1] == sum && call.layouts[0].is_replicate()) return {{Layout::replicate(), sum}, {sum}};
  return shard_elementwise(call);
}

ShardRule shard_batch(const ShardCall& call, std::uint32_t batched) {
  ShardRule rule = shard_replicated(call);
  bool split = false;
  for (std::size_t i = 0; i < call.in.size(); ++i) split |= ((batched >> i) & 1) && call.layouts[i].is_split(0);
  if (!split) return rule;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if ((batched >> i) & 1) rule.in[i] = Layout::split(0);
  }
  for (auto& out : rule.out) out = Layout::split(0);
  return rule;
}

ShardRule shard_other_axes(const ShardCall& call, std::int64_t axis) {
  ShardRule rule = shard_replicated(call);
  const int cut = normalize_axis(axis, call.in[0].shape.rank(), call.op.name.c_str());
  const Layout from = call.layouts[0];
  if (from.is_split() && from.dim == cut) return rule;
  for (const auto& layout : call.layouts) {
    if (layout != from) return rule;
  }
  for (auto& in : rule.in) in = from;
  for (auto& out : rule.out) out = from;
  return rule;
}

int split_dim(const ShardCall& call) {
  for (const auto& layout : call.layouts) {
    if (layout.is_split()) return layout.dim;
  }
  return -1;
}

ShardRule shard_kept(const ShardCall& call, int dim, int out) {
  ShardRule rule = shard_replicated(call);
  if (dim < 0 || out < 0) return rule;
  for (const auto& in : call.in) {
    if (dim >= in.shape.rank() || in.shape[dim] != call.in[0].shape[dim]) return rule;
  }
  for (auto& in : rule.in) in = Layout::split(dim);
  for (auto& to : rule.out) to = Layout::split(out);
  return rule;
}

Tensor widened(const Tensor& x) { return x.defined() && is_half(x.dtype()) ? cast(x, DType::f32) : x; }

Tensor sum_to(const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return tensor;
  const int extra = tensor.rank() - shape.rank();
  Shape axes;
  for (int i = 0; i < tensor.rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && tensor.shape()[i] != 1)) axes.push_back(i);
  }
  return reshape(axes.empty() ? tensor : sum(tensor, {.axes = axes}), shape);
}

}  // namespace starling::rules
