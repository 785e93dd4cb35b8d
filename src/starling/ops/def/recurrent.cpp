#include "starling/ops/def/recurrent.h"

#include <numeric>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/near_scope.h"

namespace starling::recurrent {

Sizes sizes_of(const InferCall& call, int sequence, int per_step, int weights, int gates) {
  rules::expect_rank(call, sequence, 3);
  rules::expect_rank(call, weights, 2);
  const Shape& x = call.in[static_cast<std::size_t>(sequence)].shape;
  const Shape& w = call.in[static_cast<std::size_t>(weights)].shape;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  check(x[0] < kMost && w[1] < kMost && w[0] == gates * w[1] && x[2] == per_step * w[1],
        "[{}] expected {} [t, n, {} h] and {} [{} h, h], got {} and {}", call.op.name,
        call.op.inputs[static_cast<std::size_t>(sequence)], per_step, call.op.inputs[static_cast<std::size_t>(weights)],
        gates, to_string(x), to_string(w));
  const Sizes sizes{x[0], x[1], w[1]};
  check_size(sizes.states(), 8, call.op.name.c_str());
  return sizes;
}

void expect_shape(const InferCall& call, int input, const Shape& shape) {
  const auto& type = call.in[static_cast<std::size_t>(input)];
  check(type.shape == shape, "[{}] expected {} {}, got {}", call.op.name,
        call.op.inputs[static_cast<std::size_t>(input)], to_string(shape), to_string(type));
}

void expect_shape_or_none(const InferCall& call, int input, const Shape& shape) {
  if (!(call.in[static_cast<std::size_t>(input)].shape == Shape{0})) expect_shape(call, input, shape);
}

void expect_operands(const InferCall& call, int lengths, std::int64_t batch) {
  rules::expect_float(call);
  for (int i = 0; i < static_cast<int>(call.in.size()); ++i) {
    const auto& type = call.in[static_cast<std::size_t>(i)];
    const TensorType want = i == lengths ? TensorType{DType::i64, {batch}} : TensorType{call.in[0].dtype, type.shape};
    check(type == want, "[{}] expected {} to be {}, got {}", call.op.name, call.op.inputs[static_cast<std::size_t>(i)],
          to_string(want), to_string(type));
  }
}

Tensor none(DType dtype) { return full({0}, 0.0, dtype); }
Tensor or_none(const Tensor& gradient, DType dtype) { return gradient.defined() ? gradient : none(dtype); }
Tensor or_zeros(const Tensor& gradient, const Tensor& like) {
  return gradient.defined() && !is_none(gradient) ? gradient : full(like.shape(), 0.0, like.dtype());
}

namespace {

Tensor slots(const Tensor& x, std::int64_t begin, std::int64_t end) {
  return slice(x, {.axis = 0, .begin = begin, .end = end});
}

Tensor with_slot(const Tensor& x, bool in_front) {
  const NearScope near(x);
  const Tensor zero = full({1, x.shape()[1], x.shape()[2]}, 0.0, x.dtype());
  const Tensor both[] = {in_front ? zero : x, in_front ? x : zero};
  return concat(both, 0);
}

Tensor state_at(const Tensor& states, bool at_front) {
  const std::int64_t at = at_front ? 0 : states.shape()[0] - 1;
  return reshape(slots(states, at, at + 1), {states.shape()[1], states.shape()[2]});
}

}  // namespace

Tensor begins(const Tensor& states, bool reverse) {
  const std::int64_t steps = states.shape()[0] - 1;
  return reverse ? slots(states, 1, steps + 1) : slots(states, 0, steps);
}
Tensor ends(const Tensor& states, bool reverse) { return begins(states, !reverse); }
Tensor to_begins(const Tensor& x, bool reverse) { return with_slot(x, reverse); }
Tensor to_ends(const Tensor& x, bool reverse) { return with_slot(x, !reverse); }
Tensor first_state(const Tensor& states, bool reverse) { return state_at(states, !reverse); }
Tensor last_state(const Tensor& states, bool reverse) { return state_at(states, reverse); }

Tensor gate(const Tensor& gates, int i, std::int64_t hidden) {
  return slice(gates, {.axis = 2, .begin = i * hidden, .end = (i + 1) * hidden});
}
Tensor join_gates(std::initializer_list<Tensor> gates) { return concat({gates.begin(), gates.size()}, 2); }

Tensor masked(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x;
  const std::int64_t steps = x.shape()[0], batch = x.shape()[1];
  std::vector<std::int64_t> time(static_cast<std::size_t>(steps));
  std::iota(time.begin(), time.end(), 0);
  const Tensor at = constant(from_host<std::int64_t>(time, {steps, 1, 1}));
  return mul(x, cast(less(at, reshape(lengths, {1, batch, 1})), x.dtype()));
}

namespace {

Tensor rows(const Tensor& x) { return reshape(x, {x.shape()[0] * x.shape()[1], x.shape()[2]}); }

}  // namespace

Tensor product(const Tensor& states, const Tensor& weights) {
  return reshape(matmul(rows(states), weights, {.trans_b = true}),
                 {states.shape()[0], states.shape()[1], weights.shape()[0]});
}
Tensor weight_gradient(const Tensor& gradient, const Tensor& states) {
  return matmul(rows(gradient), rows(states), {.trans_a = true});
}

Tensor sigmoid_bend(const Tensor& y) { return add(mul(y, -2.0), 1.0); }
Tensor tanh_slope(const Tensor& y) { return add(neg(mul(y, y)), 1.0); }
Tensor tanh_bend(const Tensor& y) { return mul(y, -2.0); }

ShardRule shard_axes(const ShardCall& call, std::initializer_list<int> in, std::initializer_list<int> out) {
  bool split = false;
  for (std::size_t i = 0; i < call.in.size(); ++i) split = split || call.layouts[i].is_split(in.begin()[i]);
  ShardRule rule = rules::shard_replicated(call);
  if (!split) return rule;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const int axis = in.begin()[i];
    if (axis >= 0 && axis < call.in[i].shape.rank()) rule.in[i] = Layout::split(axis);
  }
  for (std::size_t i = 0; i < call.out.size(); ++i) rule.out[i] = Layout::split(out.begin()[i]);
  return rule;
}

std::vector<Sample> samples() {
  return {{{3, 2, 3}, false, false, false}, {{4, 3, 2}, true, false, true},   {{4, 3, 2}, false, true, true},
          {{3, 4, 3}, true, true, false},   {{0, 2, 3}, false, false, false}, {{2, 0, 3}, true, true, true},
          {{2, 5, 18}, false, true, false}, {{1, 1, 5}, true, false, true},   {{2, 17, 2}, false, false, true}};
}

CaseInput sample_lengths(const Sizes& sizes) {
  return {.shape = {sizes.batch}, .low = 0, .high = static_cast<double>(sizes.steps) + 0.99, .dtype = DType::i64};
}
CaseInput sample_weights(const Sizes& sizes, int gates) {
  return {.shape = {gates * sizes.hidden, sizes.hidden}, .low = -0.25, .high = 0.25};
}
CaseInput sample_gates(const Shape& shape) { return {.shape = shape, .low = 0.1, .high = 0.9}; }

}  // namespace starling::recurrent
