#pragma once

#include "starling/ops/def/op_def.h"

namespace starling::recurrent {

// Helpers of the recurrent layers' definitions. A layer keeps its states as a sequence [t+1, n, h] in the order of
// time: a step reads one slot and writes the next. Going forward the initial state is slot 0; in reverse it is slot t.
// The three ops of a layer are
//   layer      states from projected inputs gx = W_ih x + b,
//   backward   VJP: from gradients of the states to gradients of gx and the states,
//   tangent    JVP: from tangents of gx and the states to tangents of the states.
// Backward and tangent are each other's transpose, hence each other's gradient; the remaining second derivatives (of
// gates, states and weights) are elementwise in the sequences that the two return.

struct Sizes {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
  Shape gates(int count) const { return {steps, batch, count * hidden}; }
  Shape states() const { return {steps + 1, batch, hidden}; }
  Shape state() const { return {batch, hidden}; }
};

// Sizes from operand `sequence` [t, n, per_step · h] and weights [gates · h, h].
Sizes sizes_of(const InferCall& call, int sequence, int per_step, int weights, int gates);
void expect_shape(const InferCall& call, int input, const Shape& shape);
// Checks a shape; a gradient that is zero everywhere may be an empty tensor [0].
void expect_shape_or_none(const InferCall& call, int input, const Shape& shape);
// Checks that operands are floats of one dtype, and the operand `lengths`, if present, i64[n].
void expect_operands(const InferCall& call, int lengths, std::int64_t batch);

// with_lengths(): operands followed by the lengths, if any. optional(): operand i, or undefined.
inline TensorList with_lengths(TensorList operands, const Tensor& lengths) {
  if (lengths.defined()) operands.push_back(lengths);
  return operands;
}
inline Tensor optional(std::span<const Tensor> in, std::size_t i) { return in.size() > i ? in[i] : Tensor(); }

Tensor none(DType dtype);
inline bool is_none(const Tensor& x) { return x.rank() == 1; }
Tensor or_none(const Tensor& gradient, DType dtype);
Tensor or_zeros(const Tensor& gradient, const Tensor& like);

// States at the start and at the end of each step: [t, n, h].
Tensor begins(const Tensor& states, bool reverse);
Tensor ends(const Tensor& states, bool reverse);
// Adjoints: sequences [t, n, h] placed into the slots of [t+1, n, h], zero in the remaining one.
Tensor to_begins(const Tensor& x, bool reverse);
Tensor to_ends(const Tensor& x, bool reverse);
Tensor first_state(const Tensor& states, bool reverse);  // [n, h]
Tensor last_state(const Tensor& states, bool reverse);

Tensor gate(const Tensor& gates, int i, std::int64_t hidden);
Tensor join_gates(std::initializer_list<Tensor> gates);

// x [t, n, ..] with steps beyond each sequence's length set to 0; x itself without lengths.
Tensor masked(const Tensor& x, const Tensor& lengths);

Tensor product(const Tensor& states, const Tensor& weights);           // [t, n, h] · [k, h]ᵀ
Tensor weight_gradient(const Tensor& gradient, const Tensor& states);  // summed over steps and rows: [k, h]

// First and second derivatives of gates, from their outputs.
Tensor sigmoid_bend(const Tensor& y);  // 1 - 2 y, the derivative of y (1 - y)
Tensor tanh_slope(const Tensor& y);    // 1 - y²
Tensor tanh_bend(const Tensor& y);     // -2 y

// Sharding along the batch: batch axis of each input and output, -1 if it has none.
ShardRule shard_axes(const ShardCall& call, std::initializer_list<int> in, std::initializer_list<int> out);

// Sizes and options of a sample call.
struct Sample {
  Sizes sizes;
  bool reverse = false;
  bool lengths = false;
  bool other = false;  // an option of its own: relu instead of tanh for rnn
};
std::vector<Sample> samples();
CaseInput sample_lengths(const Sizes& sizes);
CaseInput sample_gates(const Shape& shape);
// Weights small enough to keep long random sequences from becoming chaotic, where kernels could not agree.
CaseInput sample_weights(const Sizes& sizes, int gates);

}  // namespace starling::recurrent
