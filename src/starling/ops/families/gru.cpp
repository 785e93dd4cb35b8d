#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/rnn.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/recurrent.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

using recurrent::begins;
using recurrent::ends;
using recurrent::expect_operands;
using recurrent::expect_shape;
using recurrent::expect_shape_or_none;
using recurrent::first_state;
using recurrent::gate;
using recurrent::is_none;
using recurrent::join_gates;
using recurrent::masked;
using recurrent::optional;
using recurrent::or_none;
using recurrent::or_zeros;
using recurrent::product;
using recurrent::sample_gates;
using recurrent::sample_lengths;
using recurrent::sample_weights;
using recurrent::samples;
using recurrent::shard_axes;
using recurrent::sigmoid_bend;
using recurrent::Sizes;
using recurrent::sizes_of;
using recurrent::tanh_bend;
using recurrent::to_begins;
using recurrent::weight_gradient;
using recurrent::with_lengths;

constexpr int kGates = 3;  // r, z, n
constexpr int kSaved = 4;  // r, z, n and m = W_hn h + b_hn, which r multiplies

struct At {
  Tensor w, gates, hs, lengths;
  Attrs attrs;
  bool reverse() const { return attrs.as<op::LayerAttrs>().reverse; }
};

TensorList backward(const At& at, const Tensor& dhs, const Tensor& dgates) {
  return apply(named_op<"gru_layer_backward">(), with_lengths({dhs, dgates, at.w, at.gates, at.hs}, at.lengths),
               at.attrs);
}
TensorList tangent(const At& at, const Tensor& ugx, const Tensor& up, const Tensor& uh) {
  return apply(named_op<"gru_layer_tangent">(), with_lengths({ugx, up, uh, at.w, at.gates, at.hs}, at.lengths),
               at.attrs);
}

struct Sequences {
  Tensor ugx, up, ths, tgates;  // operands and results of the tangent
  Tensor dgates, dgx, dp, dh;   // operands and results of the backward
};
struct Derivatives {
  Tensor w, gates, hs;
};

// Derivatives of ⟨gradient, derivative · direction⟩ with respect to weights, gates and states.
Derivatives second_order(const At& at, const Sequences& s) {
  const bool reverse = at.reverse();
  const std::int64_t hidden = at.w.shape()[1];
  const auto of = [&](const Tensor& x, int i) { return gate(x, i, hidden); };
  const Tensor r = of(at.gates, 0), z = of(at.gates, 1), n = of(at.gates, 2), m = of(at.gates, 3);
  const Tensor tr = of(s.tgates, 0), tz = of(s.tgates, 1), tn = of(s.tgates, 2), tm = of(s.tgates, 3);
  const Tensor q_begin = begins(s.ths, reverse), dh = ends(s.dh, reverse), before = begins(at.hs, reverse);
  const Tensor p = add(s.up, product(q_begin, at.w));
  const Tensor into_r = add(of(s.ugx, 0), of(p, 0)), into_z = add(of(s.ugx, 1), of(p, 1)),
               into_n = add(of(s.ugx, 2), add(mul(tr, m), mul(r, tm)));
  const Tensor outer = or_zeros(s.dgates, at.gates), dpre_n = of(s.dgx, 2);
  const Tensor dr = add(of(outer, 0), mul(dpre_n, m)), dz = add(of(outer, 1), mul(dh, sub(before, n))),
               dn = add(of(outer, 2), mul(dh, 1.0 + neg(z)));
  const Tensor gates = join_gates({add(mul(mul(dr, into_r), sigmoid_bend(r)), mul(dpre_n, tm)),
                                   add(mul(mul(dz, into_z), sigmoid_bend(z)), mul(dh, sub(q_begin, tn))),
                                   sub(mul(mul(dn, into_n), tanh_bend(n)), mul(dh, tz)), mul(dpre_n, tr)});
  return {weight_gradient(s.dp, q_begin), masked(gates, at.lengths),
          to_begins(masked(mul(dh, tz), at.lengths), reverse)};
}

TensorList grad_layer(const GradCall& c) {
  const At at{c.in[1], c.out[1], c.out[0], optional(c.in, 4), c.attrs};
  const TensorList d = backward(at, or_zeros(c.grads[0], c.out[0]), or_none(c.grads[1], c.in[0].dtype()));
  TensorList out(c.in.size());
  out[0] = d[0];
  if (c.needs(1)) out[1] = weight_gradient(d[1], begins(c.out[0], at.reverse()));
  if (c.needs(2)) out[2] = sum(d[1], {.axes = {0, 1}});
  if (c.needs(3)) out[3] = first_state(d[2], at.reverse());
  return out;
}

TensorList grad_backward(const GradCall& c) {
  const At at{c.in[2], c.in[3], c.in[4], optional(c.in, 5), c.attrs};
  const Tensor ugx = or_zeros(c.grads[0], c.out[0]), up = or_zeros(c.grads[1], c.out[1]);
  const TensorList t = tangent(at, ugx, up, or_zeros(c.grads[2], c.out[2]));
  TensorList out(c.in.size());
  out[0] = t[0];
  if (!is_none(c.in[1])) out[1] = t[1];
  if (!c.needs(2) && !c.needs(3) && !c.needs(4)) return out;
  const Derivatives d = second_order(at, {ugx, up, t[0], t[1], c.in[1], c.out[0], c.out[1], c.out[2]});
  out[2] = d.w, out[3] = d.gates, out[4] = d.hs;
  return out;
}

TensorList grad_tangent(const GradCall& c) {
  const At at{c.in[3], c.in[4], c.in[5], optional(c.in, 6), c.attrs};
  const Tensor dgates = or_none(c.grads[1], c.in[0].dtype());
  const TensorList b = backward(at, or_zeros(c.grads[0], c.out[0]), dgates);
  TensorList out(c.in.size());
  out[0] = b[0], out[1] = b[1], out[2] = b[2];
  if (!c.needs(3) && !c.needs(4) && !c.needs(5)) return out;
  const Derivatives d = second_order(at, {c.in[0], c.in[1], c.out[0], c.out[1], dgates, b[0], b[1], b[2]});
  out[3] = d.w, out[4] = d.gates, out[5] = d.hs;
  return out;
}

Types infer_layer(const InferCall& call) {
  const Sizes s = sizes_of(call, 0, kGates, 1, kGates);
  expect_operands(call, 4, s.batch);
  expect_shape(call, 2, {kGates * s.hidden});
  expect_shape(call, 3, s.state());
  const DType dtype = call.in[0].dtype;
  return {{dtype, s.states()}, {dtype, s.gates(kSaved)}};
}

Types infer_backward(const InferCall& call) {
  const Sizes s = sizes_of(call, 3, kSaved, 2, kGates);
  expect_operands(call, 5, s.batch);
  expect_shape(call, 0, s.states());
  expect_shape_or_none(call, 1, s.gates(kSaved));
  expect_shape(call, 4, s.states());
  const DType dtype = call.in[0].dtype;
  return {{dtype, s.gates(kGates)}, {dtype, s.gates(kGates)}, {dtype, s.states()}};
}

Types infer_tangent(const InferCall& call) {
  const Sizes s = sizes_of(call, 4, kSaved, 3, kGates);
  expect_operands(call, 6, s.batch);
  expect_shape(call, 0, s.gates(kGates));
  expect_shape(call, 1, s.gates(kGates));
  expect_shape(call, 2, s.states());
  expect_shape(call, 5, s.states());
  const DType dtype = call.in[0].dtype;
  return {{dtype, s.states()}, {dtype, s.gates(kSaved)}};
}

// One case per sample; `operands` returns the operands before the lengths.
template <class Operands>
std::vector<OpCase> cases_of(Operands operands) {
  std::vector<OpCase> cases;
  for (const auto& sample : samples()) {
    cases.push_back({operands(sample.sizes, sample.other), op::LayerAttrs{sample.reverse}});
    if (sample.lengths) cases.back().in.push_back(sample_lengths(sample.sizes));
  }
  return cases;
}

std::vector<OpCase> layer_cases() {
  return cases_of([](const Sizes& s, bool) {
    return std::vector<CaseInput>{
        {.shape = s.gates(kGates)}, sample_weights(s, kGates), {.shape = {kGates * s.hidden}}, {.shape = s.state()}};
  });
}
std::vector<OpCase> backward_cases() {
  return cases_of([](const Sizes& s, bool other) {
    return std::vector<CaseInput>{{.shape = s.states()},
                                  {.shape = other ? Shape{0} : s.gates(kSaved)},
                                  sample_weights(s, kGates),
                                  sample_gates(s.gates(kSaved)),
                                  {.shape = s.states()}};
  });
}
std::vector<OpCase> tangent_cases() {
  return cases_of([](const Sizes& s, bool) {
    return std::vector<CaseInput>{{.shape = s.gates(kGates)}, {.shape = s.gates(kGates)},    {.shape = s.states()},
                                  sample_weights(s, kGates),  sample_gates(s.gates(kSaved)), {.shape = s.states()}};
  });
}

}  // namespace

void register_ops_gru(OpRegistry& ops) {
  ops.add({.name = "gru_layer",
           .doc = "A GRU over a sequence of projected inputs gx [t, n, 3h]: states [t+1, n, h], gates.",
           .inputs = {"gx", "w", "b", "h0", "lengths?"},
           .outputs = {"hs", "gates"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = infer_layer,
           .gradient = grad_layer,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, -1, -1, 0, 0}, {1, 1});
               },
           .cases = layer_cases,
           .saves = kSavesAll,
           .cost = costs::recurrent(0, 1, 14),
           .precision = Width::wide});
  ops.add({.name = "gru_layer_backward",
           .doc = "The gradients of a GRU layer for gx, W h + b and the states; an empty dgates is zero.",
           .inputs = {"dhs", "dgates", "w", "gates", "hs", "lengths?"},
           .outputs = {"dgx", "dp", "dh"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = infer_backward,
           .gradient = grad_backward,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, 1, -1, 1, 1, 0}, {1, 1, 1});
               },
           .cases = backward_cases,
           .saves = kSavesAll,
           .cost = costs::recurrent(3, 2, 25),
           .precision = Width::wide});
  ops.add({.name = "gru_layer_tangent",
           .doc = "The derivative of a GRU layer along directions of gx, W h + b and the states.",
           .inputs = {"ugx", "up", "uh", "w", "gates", "hs", "lengths?"},
           .outputs = {"ths", "tgates"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = infer_tangent,
           .gradient = grad_tangent,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, 1, 1, -1, 1, 1, 0}, {1, 1});
               },
           .cases = tangent_cases,
           .saves = kSavesAll,
           .plain = true,
           .cost = costs::recurrent(0, 3, 25),
           .precision = Width::wide});
}

}  // namespace starling
