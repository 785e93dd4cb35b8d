#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor ctc(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
           const op::CtcAttrs& attrs, const LossOptions& options) {
  return op::reduce_loss(apply1(named_op<"ctc_loss">(), {log_probs, targets, input_lengths, target_lengths}, attrs),
                         options, "ctc");
}

namespace {

constexpr std::size_t kFixed = 4;  // operands before the tangent directions
constexpr std::size_t kMostDirections = 4;

void check_ctc(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 3);
  rules::expect_rank(call, 1, 2);
  const Shape& x = call.in[0].shape;
  const TensorType targets{DType::i64, {x[1], call.in[1].shape[1]}}, lengths{DType::i64, {x[1]}};
  check(call.in[1] == targets && call.in[2] == lengths && call.in[3] == lengths,
        "[{}] expected targets i64[{}, s] and two lengths {}, got {}, {} and {}", call.op.name, x[1],
        to_string(lengths), to_string(call.in[1]), to_string(call.in[2]), to_string(call.in[3]));
  const auto blank = call.attrs.as<op::CtcAttrs>().blank;
  check(blank >= 0 && blank < x[2], "[{}] expected a blank in [0, {}), got {}", call.op.name, x[2], blank);
}

Types infer_loss(const InferCall& call) {
  check_ctc(call);
  return {TensorType{call.in[0].dtype, {call.in[0].shape[1]}}};
}

Types infer_derivative(const InferCall& call) {
  check_ctc(call);
  check(call.in.size() <= kFixed + kMostDirections, "[ctc_derivative] expected at most {} directions, got {}",
        kMostDirections, call.in.size() - kFixed);
  for (std::size_t i = kFixed; i < call.in.size(); ++i) {
    check(call.in[i] == call.in[0], "[ctc_derivative] expected directions of {}, got {}", to_string(call.in[0]),
          to_string(call.in[i]));
  }
  return {call.in[0]};
}

// Derivative along the given directions and the incoming gradient: derivatives of any order are the same op.
Tensor along(const GradCall& c, std::size_t without) {
  std::vector<Tensor> xs;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    if (i != without) xs.push_back(c.in[i]);
  }
  xs.push_back(c.grads[0]);
  return apply1(named_op<"ctc_derivative">(), xs, c.attrs);
}

TensorList grad_derivative(const GradCall& c) {
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = along(c, c.in.size());
  for (std::size_t i = kFixed; i < c.in.size(); ++i) {
    if (c.needs(static_cast<int>(i))) out[i] = along(c, i);
  }
  return out;
}

TensorList grad_loss(const GradCall& c) {
  TensorList out(kFixed);
  const Tensor derivative = apply1(named_op<"ctc_derivative">(), c.in, c.attrs);
  out[0] = mul(derivative, reshape(c.grads[0], {1, c.in[0].shape()[1], 1}));
  return out;
}

// Batch axis: the second dimension of some operands, the first of others.
ShardRule shard_ctc(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  bool split = false;
  for (std::size_t i = 0; i < call.in.size(); ++i)
    split = split || call.layouts[i].is_split(i == 0 || i >= kFixed ? 1 : 0);
  if (!split) return rule;
  for (std::size_t i = 0; i < call.in.size(); ++i) rule.in[i] = Layout::split(i == 0 || i >= kFixed ? 1 : 0);
  rule.out[0] = Layout::split(call.out[0].shape.rank() == 3 ? 1 : 0);
  return rule;
}

struct Sizes {
  std::int64_t time, batch, classes, targets;
};

OpCase ctc_case(Sizes n, op::CtcAttrs attrs, double shortest, int directions = 0) {
  const auto whole = [](std::int64_t v) { return static_cast<double>(v); };
  const Shape x = {n.time, n.batch, n.classes};
  const double first = attrs.blank == 0 ? 1 : 0;
  OpCase c{{{.shape = x, .low = -3, .high = 0},
            {.shape = {n.batch, n.targets}, .low = first, .high = first + whole(n.classes) - 1.01, .dtype = DType::i64},
            {.shape = {n.batch}, .low = shortest, .high = whole(n.time) + 0.99, .dtype = DType::i64},
            {.shape = {n.batch}, .low = 0, .high = whole(n.targets) + 0.99, .dtype = DType::i64}},
           attrs};
  for (int i = 0; i < directions; ++i) c.in.push_back({.shape = x, .low = -1, .high = 1});
  return c;
}

std::vector<OpCase> loss_cases() {
  return {ctc_case({6, 2, 4, 3}, {}, 6),
          ctc_case({8, 3, 5, 2}, {}, 5),
          ctc_case({5, 1, 3, 2}, {.blank = 2}, 5),
          ctc_case({4, 2, 3, 0}, {}, 0),
          ctc_case({6, 0, 4, 3}, {}, 6),
          ctc_case({9, 2, 6, 4}, {.blank = 5}, 8),
          ctc_case({2, 3, 4, 3}, {.zero_infinity = true}, 0),
          ctc_case({7, 4, 2, 1}, {}, 2)};
}

std::vector<OpCase> derivative_cases() {
  return {ctc_case({6, 2, 4, 3}, {}, 6),
          ctc_case({8, 3, 5, 2}, {}, 5, 1),
          ctc_case({5, 1, 3, 2}, {.blank = 2}, 5, 1),
          ctc_case({4, 2, 3, 0}, {}, 0, 1),
          ctc_case({6, 0, 4, 3}, {}, 6, 1),
          ctc_case({9, 2, 6, 4}, {.blank = 5}, 8),
          ctc_case({2, 3, 4, 3}, {.zero_infinity = true}, 0),
          ctc_case({5, 2, 3, 2}, {}, 4, 2)};
}

}  // namespace

void register_ops_ctc(OpRegistry& ops) {
  ops.add({.name = "ctc_loss",
           .doc = "-log of the probability of every way to read the targets with repeats and blanks, of each sample.",
           .inputs = {"log_probs", "targets", "input_lengths", "target_lengths"},
           .outputs = {"loss"},
           .attrs = &attr_type<op::CtcAttrs>(),
           .infer = infer_loss,
           .gradient = grad_loss,
           .shard = shard_ctc,
           .cases = loss_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "ctc_derivative",
           .doc = "The derivative of ctc_loss by log_probs, taken further along each direction given.",
           .inputs = {"log_probs", "targets", "input_lengths", "target_lengths", "directions..."},
           .outputs = {"dx"},
           .attrs = &attr_type<op::CtcAttrs>(),
           .infer = infer_derivative,
           .gradient = grad_derivative,
           .shard = shard_ctc,
           .cases = derivative_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
