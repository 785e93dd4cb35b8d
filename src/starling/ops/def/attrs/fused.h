#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling {

// Fused chain of elementwise ops, broadcasts and reductions, made by the fusion pass. Values are numbered operands
// first, then one per step. Its text form lists steps, then outputs:
//   t0=add(a0,a1); t1=tanh(t0); t2=sum(t1,1); o0=t1; o1=squeeze(t2,1)
// An output may also be a call: o0=mul(t1,a2). An op's attributes follow its operands: leaky_relu(a0,0.1). A reduction
// (sum, mean, prod, max, min) is followed by its axes, which stay with size 1; an output may drop them by squeeze. A
// chain has one whole shape, to which all operands broadcast. Every value that does not depend on a reduction has that
// shape; broadcast_to(t2) stretches one that does.
struct FusedStep {
  const OpDef* op = nullptr;         // elementwise, a reduction or broadcast_to
  std::vector<int> in{};             // numbers of earlier values
  std::vector<double> attributes{};  // all attributes, in order; for a reduction the axes, ascending

  static constexpr std::size_t kMaxAttributes = 2;
  Attrs attrs() const;
  bool reduces() const;
  bool stretches() const;
  Shape axes() const;  // axes of a reduction
};
bool fused_reduction(const OpDef& op);  // true if a step of this op reduces

struct FusedProgram {
  int operands = 0;
  std::vector<FusedStep> steps{};
  std::vector<int> outputs{};    // numbers of values
  std::vector<Shape> dropped{};  // axes that each output drops; missing entries: none

  // Throws on text of another form, an op that cannot be fused, a value that does not exist yet, a wrong number of
  // operands, or no output. Operands are those that the text names, a0 to the last.
  static FusedProgram parse(std::string_view text);
  std::string print() const;
  void verify() const;

  bool reduces() const;
  bool is_step(int value) const { return value >= operands; }
  const FusedStep& step(int value) const { return steps[static_cast<std::size_t>(value - operands)]; }
  // By value: true if it depends on a reduction.
  std::vector<bool> reduced() const;

  // Types of all values, and of all outputs. Throws what the ops' own inference throws.
  std::vector<TensorType> infer(std::span<const TensorType> operands) const;
  Types infer_outputs(std::span<const TensorType> operands) const;
};
Shape fused_shape(std::span<const TensorType> operands);  // the whole shape of a chain

namespace op {

struct FusedAttrs {
  Symbol program{};
  static AttrFields fields() { return {field("program", &FusedAttrs::program)}; }
};

}  // namespace op

// Program of a `fused` op's attribute, parsed once per process and kept. Thread-safe.
const FusedProgram& fused_program(Symbol program);

// fused(operands...) → one tensor per output.
TensorList fused(std::span<const Tensor> operands, const FusedProgram& program);

}  // namespace starling
