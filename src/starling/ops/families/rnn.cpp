#include "starling/ops/api/rnn.h"

#include <algorithm>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/rnn.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/recurrent.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

using recurrent::begins;
using recurrent::ends;
using recurrent::expect_operands;
using recurrent::expect_shape;
using recurrent::first_state;
using recurrent::masked;
using recurrent::optional;
using recurrent::or_zeros;
using recurrent::product;
using recurrent::sample_lengths;
using recurrent::sample_weights;
using recurrent::samples;
using recurrent::shard_axes;
using recurrent::Sizes;
using recurrent::sizes_of;
using recurrent::tanh_bend;
using recurrent::to_ends;
using recurrent::weight_gradient;
using recurrent::with_lengths;

struct At {
  Tensor w, hs, lengths;
  Attrs attrs;
  bool reverse() const { return attrs.as<op::RnnLayerAttrs>().reverse; }
};

TensorList backward(const At& at, const Tensor& dhs) {
  return apply(named_op<"rnn_layer_backward">(), with_lengths({dhs, at.w, at.hs}, at.lengths), at.attrs);
}
Tensor tangent(const At& at, const Tensor& ugx, const Tensor& uh) {
  return apply(named_op<"rnn_layer_tangent">(), with_lengths({ugx, uh, at.w, at.hs}, at.lengths), at.attrs)[0];
}

// Derivative of ⟨gradient, derivative · direction⟩ with respect to the states, through the slope; zero for relu.
Tensor bent_states(const At& at, const Tensor& ugx, const Tensor& ths, const Tensor& dh) {
  if (at.attrs.as<op::RnnLayerAttrs>().relu) return full(at.hs.shape(), 0.0, at.hs.dtype());
  const bool reverse = at.reverse();
  const Tensor p = add(ugx, product(begins(ths, reverse), at.w));
  const Tensor bent = mul(mul(ends(dh, reverse), p), tanh_bend(ends(at.hs, reverse)));
  return to_ends(masked(bent, at.lengths), reverse);
}

TensorList grad_layer(const GradCall& c) {
  const At at{c.in[1], c.out[0], optional(c.in, 3), c.attrs};
  const TensorList d = backward(at, c.grads[0]);
  TensorList out(c.in.size());
  out[0] = d[0];
  if (c.needs(1)) out[1] = weight_gradient(d[0], begins(c.out[0], at.reverse()));
  if (c.needs(2)) out[2] = first_state(d[1], at.reverse());
  return out;
}

TensorList grad_backward(const GradCall& c) {
  const At at{c.in[1], c.in[2], optional(c.in, 3), c.attrs};
  const Tensor ugx = or_zeros(c.grads[0], c.out[0]);
  TensorList out(c.in.size());
  out[0] = tangent(at, ugx, or_zeros(c.grads[1], c.out[1]));
  if (c.needs(1)) out[1] = weight_gradient(c.out[0], begins(out[0], at.reverse()));
  if (c.needs(2)) out[2] = bent_states(at, ugx, out[0], c.out[1]);
  return out;
}

TensorList grad_tangent(const GradCall& c) {
  const At at{c.in[2], c.in[3], optional(c.in, 4), c.attrs};
  const TensorList b = backward(at, c.grads[0]);
  TensorList out(c.in.size());
  out[0] = b[0], out[1] = b[1];
  if (c.needs(2)) out[2] = weight_gradient(b[0], begins(c.out[0], at.reverse()));
  if (c.needs(3)) out[3] = bent_states(at, c.in[0], c.out[0], b[1]);
  return out;
}

Types infer_layer(const InferCall& call) {
  const Sizes s = sizes_of(call, 0, 1, 1, 1);
  expect_operands(call, 3, s.batch);
  expect_shape(call, 2, s.state());
  return {{call.in[0].dtype, s.states()}};
}

Types infer_backward(const InferCall& call) {
  Sizes s = sizes_of(call, 2, 1, 1, 1);
  check(s.steps >= 1, "[{}] expected hs [t+1, n, h], got {}", call.op.name, to_string(call.in[2]));
  --s.steps;
  expect_operands(call, 3, s.batch);
  expect_shape(call, 0, s.states());
  return {{call.in[0].dtype, s.gates(1)}, {call.in[0].dtype, s.states()}};
}

Types infer_tangent(const InferCall& call) {
  const Sizes s = sizes_of(call, 0, 1, 2, 1);
  expect_operands(call, 4, s.batch);
  expect_shape(call, 1, s.states());
  expect_shape(call, 3, s.states());
  return {{call.in[0].dtype, s.states()}};
}

template <class Operands>
std::vector<OpCase> cases_of(Operands operands) {
  std::vector<OpCase> cases;
  for (const auto& sample : samples()) {
    cases.push_back({operands(sample.sizes), op::RnnLayerAttrs{sample.reverse, sample.other}});
    if (sample.lengths) cases.back().in.push_back(sample_lengths(sample.sizes));
  }
  return cases;
}

double flops_of_rnn_backward(const CostCall& call) {
  const double steps = std::max(0.0, costs::size(call.in[2], 0) - 1);
  return steps * costs::size(call.in[2], 1) * (2 * costs::elements(call.in[1]) + 4 * costs::size(call.in[1], -1));
}

}  // namespace

void register_ops_rnn(OpRegistry& ops) {
  ops.add({.name = "rnn_layer",
           .doc = "h' = tanh (or relu) of gx + W h over a sequence gx [t, n, h]: the states [t+1, n, h].",
           .inputs = {"gx", "w", "h0", "lengths?"},
           .outputs = {"hs"},
           .attrs = &attr_type<op::RnnLayerAttrs>(),
           .infer = infer_layer,
           .gradient = grad_layer,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, -1, 0, 0}, {1});
               },
           .cases =
               [] {
                 return cases_of([](const Sizes& s) {
                   return std::vector<CaseInput>{{.shape = s.gates(1)}, sample_weights(s, 1), {.shape = s.state()}};
                 });
               },
           .saves = kSavesAll,
           .cost = costs::recurrent(0, 1, 2),
           .precision = Width::wide});
  ops.add({.name = "rnn_layer_backward",
           .doc = "The gradients of an rnn layer for gx and the states.",
           .inputs = {"dhs", "w", "hs", "lengths?"},
           .outputs = {"dgx", "dh"},
           .attrs = &attr_type<op::RnnLayerAttrs>(),
           .infer = infer_backward,
           .gradient = grad_backward,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, -1, 1, 0}, {1, 1});
               },
           .cases =
               [] {
                 return cases_of([](const Sizes& s) {
                   return std::vector<CaseInput>{
                       {.shape = s.states()}, sample_weights(s, 1), {.shape = s.states(), .low = -1, .high = 1}};
                 });
               },
           .saves = kSavesAll,
           .cost = {flops_of_rnn_backward},
           .precision = Width::wide});
  ops.add({.name = "rnn_layer_tangent",
           .doc = "The derivative of an rnn layer along directions of gx and the states.",
           .inputs = {"ugx", "uh", "w", "hs", "lengths?"},
           .outputs = {"ths"},
           .attrs = &attr_type<op::RnnLayerAttrs>(),
           .infer = infer_tangent,
           .gradient = grad_tangent,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, 1, -1, 1, 0}, {1});
               },
           .cases =
               [] {
                 return cases_of([](const Sizes& s) {
                   return std::vector<CaseInput>{{.shape = s.gates(1)},
                                                 {.shape = s.states()},
                                                 sample_weights(s, 1),
                                                 {.shape = s.states(), .low = -1, .high = 1}};
                 });
               },
           .saves = kSavesAll,
           .plain = true,
           .cost = costs::recurrent(0, 2, 4),
           .precision = Width::wide});
}

}  // namespace starling
