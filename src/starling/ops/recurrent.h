#pragma once

#include "starling/ops/op_def.h"

namespace starling::recurrent {

// What the recurrent layers' definitions share. A layer keeps its states as a sequence [t+1, n, h] in the order of
// time: a step begins with one slot and ends with the next. Going forward the initial state is slot 0; in reverse it is
// slot t. The three ops of a layer are
//   layer      states from projected inputs gx = W_ih x + b,
//   backward   the transpose of its derivative: gradients of the states in, gradients of gx and the states out,
//   tangent    its derivative: directions of gx and the states in, of the states out.
// Backward and tangent are each other's transpose, and so each other's gradient; what is left of second derivatives
// (those for gates, states and weights) is elementwise in the sequences that the two give.

struct Sizes {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
  Shape gates(int count) const { return {steps, batch, count * hidden}; }
  Shape states() const { return {steps + 1, batch, hidden}; }
  Shape state() const { return {batch, hidden}; }
};

// From operand `sequence` [t, n, per_step · h] and weights [gates · h, h].
Sizes sizes_of(const InferCall& call, int sequence, int per_step, int weights, int gates);
void expect_shape(const InferCall& call, int input, const Shape& shape);
// A gradient that is zero everywhere may be given as an empty tensor [0].
void expect_shape_or_none(const InferCall& call, int input, const Shape& shape);
// Floats of one dtype, then lengths i64[n] as the operand `lengths`, if it is there.
void expect_operands(const InferCall& call, int lengths, std::int64_t batch);

// Operands with the lengths behind them, where there are any; and an operand that may be missing.
inline TensorList with_lengths(TensorList operands, const Tensor& lengths) {
  if (lengths.defined()) operands.push_back(lengths);
  return operands;
}
inline Tensor optional(std::span<const Tensor> in, std::size_t i) { return in.size() > i ? in[i] : Tensor(); }

Tensor none(DType dtype);
inline bool is_none(const Tensor& x) { return x.rank() == 1; }
Tensor or_none(const Tensor& gradient, DType dtype);
Tensor or_zeros(const Tensor& gradient, const Tensor& like);

// The states with which the steps begin and end: [t, n, h].
Tensor begins(const Tensor& states, bool reverse);
Tensor ends(const Tensor& states, bool reverse);
// Sequences [t, n, h] back in the slots of [t+1, n, h], zero in the one left over.
Tensor to_begins(const Tensor& x, bool reverse);
Tensor to_ends(const Tensor& x, bool reverse);
Tensor first_state(const Tensor& states, bool reverse);  // [n, h]
Tensor last_state(const Tensor& states, bool reverse);

Tensor gate(const Tensor& gates, int i, std::int64_t hidden);
Tensor join_gates(std::initializer_list<Tensor> gates);

// x [t, n, ..] where the step belongs to its sequence, 0 elsewhere; x itself without lengths.
Tensor masked(const Tensor& x, const Tensor& lengths);

Tensor product(const Tensor& states, const Tensor& weights);           // [t, n, h] · [k, h]ᵀ
Tensor weight_gradient(const Tensor& gradient, const Tensor& states);  // Σ over steps and rows: [k, h]

// Derivatives of the gates by their outputs.
Tensor sigmoid_bend(const Tensor& y);  // 1 - 2 y, the derivative of y (1 - y)
Tensor tanh_slope(const Tensor& y);    // 1 - y²
Tensor tanh_bend(const Tensor& y);     // -2 y

// Operands cut along the batch: the axis of each input and output, -1 where it has none.
ShardRule shard_axes(const ShardCall& call, std::initializer_list<int> in, std::initializer_list<int> out);

// Sizes of sample calls and whether they have lengths.
struct Sample {
  Sizes sizes;
  bool reverse = false;
  bool lengths = false;
  bool other = false;  // rnn: relu
};
std::vector<Sample> samples();
CaseInput sample_lengths(const Sizes& sizes);
CaseInput sample_gates(const Shape& shape);
// Small enough for long random sequences not to be chaotic: kernels could not agree on those.
CaseInput sample_weights(const Sizes& sizes, int gates);

}  // namespace starling::recurrent
