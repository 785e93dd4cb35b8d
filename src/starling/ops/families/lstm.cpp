#include "starling/ops/api/binary.h"
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
using recurrent::tanh_slope;
using recurrent::to_begins;
using recurrent::to_ends;
using recurrent::weight_gradient;
using recurrent::with_lengths;

constexpr int kGates = 4;  // i, f, g, o

// Linearisation point of backward and tangent: gates and cells, in the order of their ops' operands.
struct At {
  Tensor w, gates, cs, lengths;
  Attrs attrs;
  bool reverse() const { return attrs.as<op::LayerAttrs>().reverse; }
};

TensorList backward(const At& at, const Tensor& dhs, const Tensor& dcs, const Tensor& dgates) {
  return apply(named_op<"lstm_layer_backward">(), with_lengths({dhs, dcs, dgates, at.w, at.gates, at.cs}, at.lengths),
               at.attrs);
}
TensorList tangent(const At& at, const Tensor& ugx, const Tensor& uh, const Tensor& uc) {
  return apply(named_op<"lstm_layer_tangent">(), with_lengths({ugx, uh, uc, at.w, at.gates, at.cs}, at.lengths),
               at.attrs);
}

// Sequences of a tangent going forward in time and a gradient going back.
struct Sequences {
  Tensor ugx, ths, tcs, tgates;  // operand and results of the tangent
  Tensor dgates, dgx, dh, dc;    // operands and results of the backward
};
struct Derivatives {
  Tensor w, gates, cs;
};

// Derivatives of ⟨gradient, derivative · direction⟩ with respect to weights, gates and cells.
Derivatives second_order(const At& at, const Sequences& s) {
  const bool reverse = at.reverse();
  const std::int64_t hidden = at.w.shape()[1];
  const auto of = [&](const Tensor& x, int i) { return gate(x, i, hidden); };
  const Tensor i = of(at.gates, 0), f = of(at.gates, 1), g = of(at.gates, 2), o = of(at.gates, 3);
  const Tensor q_begin = begins(s.ths, reverse), r_begin = begins(s.tcs, reverse), r_end = ends(s.tcs, reverse);
  const Tensor dh = ends(s.dh, reverse), dc = ends(s.dc, reverse);
  const Tensor tc = tanh(ends(at.cs, reverse)), slope = tanh_slope(tc);
  const Tensor p = add(s.ugx, product(q_begin, at.w));
  const Tensor outer = or_zeros(s.dgates, at.gates);
  const Tensor di = add(of(outer, 0), mul(dc, g)), df = add(of(outer, 1), mul(dc, begins(at.cs, reverse))),
               dg = add(of(outer, 2), mul(dc, i)), d_o = add(of(outer, 3), mul(dh, tc));
  const auto bent = [&](const Tensor& dual, int which, const Tensor& bend) {
    return mul(mul(dual, of(p, which)), bend);
  };
  const Tensor gates = join_gates({add(bent(di, 0, sigmoid_bend(i)), mul(dc, of(s.tgates, 2))),
                                   add(bent(df, 1, sigmoid_bend(f)), mul(dc, r_begin)),
                                   add(bent(dg, 2, tanh_bend(g)), mul(dc, of(s.tgates, 0))),
                                   add(bent(d_o, 3, sigmoid_bend(o)), mul(mul(dh, slope), r_end))});
  const Tensor at_end = mul(mul(dh, slope), add(of(s.tgates, 3), mul(mul(o, tanh_bend(tc)), r_end)));
  const Tensor at_begin = mul(dc, of(s.tgates, 1));
  return {weight_gradient(s.dgx, q_begin), masked(gates, at.lengths),
          add(to_begins(masked(at_begin, at.lengths), reverse), to_ends(masked(at_end, at.lengths), reverse))};
}

TensorList grad_layer(const GradCall& c) {
  const At at{c.in[1], c.out[2], c.out[1], optional(c.in, 4), c.attrs};
  const bool reverse = at.reverse();
  const DType dtype = c.in[0].dtype();
  const TensorList d =
      backward(at, or_zeros(c.grads[0], c.out[0]), or_none(c.grads[1], dtype), or_none(c.grads[2], dtype));
  TensorList out(c.in.size());
  out[0] = d[0];
  if (c.needs(1)) out[1] = weight_gradient(d[0], begins(c.out[0], reverse));
  if (c.needs(2)) out[2] = first_state(d[1], reverse);
  if (c.needs(3)) out[3] = first_state(d[2], reverse);
  return out;
}

TensorList grad_backward(const GradCall& c) {
  const At at{c.in[3], c.in[4], c.in[5], optional(c.in, 6), c.attrs};
  const Tensor ugx = or_zeros(c.grads[0], c.out[0]);
  const TensorList t = tangent(at, ugx, or_zeros(c.grads[1], c.out[1]), or_zeros(c.grads[2], c.out[2]));
  TensorList out(c.in.size());
  out[0] = t[0];
  if (!is_none(c.in[1])) out[1] = t[1];
  if (!is_none(c.in[2])) out[2] = t[2];
  if (!c.needs(3) && !c.needs(4) && !c.needs(5)) return out;
  const Derivatives d = second_order(at, {ugx, t[0], t[1], t[2], c.in[2], c.out[0], c.out[1], c.out[2]});
  out[3] = d.w, out[4] = d.gates, out[5] = d.cs;
  return out;
}

TensorList grad_tangent(const GradCall& c) {
  const At at{c.in[3], c.in[4], c.in[5], optional(c.in, 6), c.attrs};
  const DType dtype = c.in[0].dtype();
  const Tensor dgates = or_none(c.grads[2], dtype);
  const TensorList b = backward(at, or_zeros(c.grads[0], c.out[0]), or_none(c.grads[1], dtype), dgates);
  TensorList out(c.in.size());
  out[0] = b[0], out[1] = b[1], out[2] = b[2];
  if (!c.needs(3) && !c.needs(4) && !c.needs(5)) return out;
  const Derivatives d = second_order(at, {c.in[0], c.out[0], c.out[1], c.out[2], dgates, b[0], b[1], b[2]});
  out[3] = d.w, out[4] = d.gates, out[5] = d.cs;
  return out;
}

Types infer_layer(const InferCall& call) {
  const Sizes s = sizes_of(call, 0, kGates, 1, kGates);
  expect_operands(call, 4, s.batch);
  expect_shape(call, 2, s.state());
  expect_shape(call, 3, s.state());
  const DType dtype = call.in[0].dtype;
  return {{dtype, s.states()}, {dtype, s.states()}, {dtype, s.gates(kGates)}};
}

// Types of backward (gradients of states, cells and gates) and tangent (directions of gx, states and cells).
Types infer_linear(const InferCall& call, bool backward) {
  const Sizes s = sizes_of(call, 4, kGates, 3, kGates);
  expect_operands(call, 6, s.batch);
  expect_shape(call, 5, s.states());
  if (backward) {
    expect_shape(call, 0, s.states());
    expect_shape_or_none(call, 1, s.states());
    expect_shape_or_none(call, 2, s.gates(kGates));
  } else {
    expect_shape(call, 0, s.gates(kGates));
    expect_shape(call, 1, s.states());
    expect_shape(call, 2, s.states());
  }
  const DType dtype = call.in[0].dtype;
  if (backward) return {{dtype, s.gates(kGates)}, {dtype, s.states()}, {dtype, s.states()}};
  return {{dtype, s.states()}, {dtype, s.states()}, {dtype, s.gates(kGates)}};
}

std::vector<OpCase> layer_cases() {
  std::vector<OpCase> cases;
  for (const auto& [s, reverse, lengths, other] : samples()) {
    OpCase c{{{.shape = s.gates(kGates)},
              sample_weights(s, kGates),
              {.shape = s.state(), .low = -1, .high = 1},
              {.shape = s.state()}},
             op::LayerAttrs{reverse}};
    if (lengths) c.in.push_back(sample_lengths(s));
    cases.push_back(c);
  }
  return cases;
}

std::vector<OpCase> linear_cases(bool backward) {
  std::vector<OpCase> cases;
  for (const auto& [s, reverse, lengths, other] : samples()) {
    const Shape gates = s.gates(kGates), states = s.states();
    OpCase c{{{.shape = backward ? states : gates},
              {.shape = backward && other ? Shape{0} : states},
              {.shape = !backward ? states : (other ? Shape{0} : gates)},
              sample_weights(s, kGates),
              sample_gates(gates),
              {.shape = states}},
             op::LayerAttrs{reverse}};
    if (lengths) c.in.push_back(sample_lengths(s));
    cases.push_back(c);
  }
  return cases;
}

}  // namespace

void register_ops_lstm(OpRegistry& ops) {
  ops.add({.name = "lstm_layer",
           .doc = "An LSTM over a sequence of projected inputs gx [t, n, 4h]: states and cells [t+1, n, h], gates.",
           .inputs = {"gx", "w", "h0", "c0", "lengths?"},
           .outputs = {"hs", "cs", "gates"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = infer_layer,
           .gradient = grad_layer,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, -1, 0, 0, 0}, {1, 1, 1});
               },
           .cases = layer_cases,
           .saves = kSavesAll,
           .cost = costs::recurrent(0, 1, 13),
           .precision = Width::wide});
  ops.add({.name = "lstm_layer_backward",
           .doc = "The gradients of an LSTM layer for gx, states and cells; an empty dcs or dgates is zero.",
           .inputs = {"dhs", "dcs", "dgates", "w", "gates", "cs", "lengths?"},
           .outputs = {"dgx", "dh", "dc"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = [](const InferCall& call) { return infer_linear(call, true); },
           .gradient = grad_backward,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, 1, 1, -1, 1, 1, 0}, {1, 1, 1});
               },
           .cases = [] { return linear_cases(true); },
           .saves = kSavesAll,
           .cost = costs::recurrent(4, 3, 25),
           .precision = Width::wide});
  ops.add({.name = "lstm_layer_tangent",
           .doc = "The derivative of an LSTM layer along directions of gx, states and cells.",
           .inputs = {"ugx", "uh", "uc", "w", "gates", "cs", "lengths?"},
           .outputs = {"ths", "tcs", "tgates"},
           .attrs = &attr_type<op::LayerAttrs>(),
           .infer = [](const InferCall& call) { return infer_linear(call, false); },
           .gradient = grad_tangent,
           .shard =
               [](const ShardCall& call) {
                 return shard_axes(call, {1, 1, 1, -1, 1, 1, 0}, {1, 1, 1});
               },
           .cases = [] { return linear_cases(false); },
           .saves = kSavesAll,
           .plain = true,
           .cost = costs::recurrent(0, 3, 25),
           .precision = Width::wide});
}

}  // namespace starling
