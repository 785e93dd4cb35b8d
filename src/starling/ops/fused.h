#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/ops/op_def.h"

namespace starling {

// A chain of elementwise ops, broadcasts and reductions run as one: what the fusion pass makes of their nodes. Values
// are numbered operands first, then one a step. Its text form lists steps, then outputs:
//   t0=add(a0,a1); t1=tanh(t0); t2=sum(t1,1); o0=t1; o1=squeeze(t2,1)
// Text may also give a call to an output at once: o0=mul(t1,a2). An op's attributes follow its operands:
// leaky_relu(a0,0.1). A reduction (sum, mean, prod, max, min) is followed by its axes, which stay as sizes of 1; an
// output may lose them again by squeeze. Chains have one whole shape, what all operands broadcast to. Whatever does not
// depend on a reduction has it; broadcast_to(t2) stretches to it what does.
struct FusedStep {
  const OpDef* op = nullptr;         // elementwise, a reduction or broadcast_to
  std::vector<int> in{};             // numbers of values before it
  std::vector<double> attributes{};  // all of them, in order; the axes of a reduction, ascending

  static constexpr std::size_t kMaxAttributes = 2;
  Attrs attrs() const;
  bool reduces() const;
  bool stretches() const;
  Shape axes() const;  // of a reduction
};
bool fused_reduction(const OpDef& op);  // whether such a step reduces

struct FusedProgram {
  int operands = 0;
  std::vector<FusedStep> steps{};
  std::vector<int> outputs{};    // numbers of values
  std::vector<Shape> dropped{};  // axes that each output loses; shorter: the rest loses none

  // Throws when a step names an op that is none of these, a value that does not exist yet, or too many or too few
  // operands; when there is no output; on text of another form. Operands are those that the text names, a0 to the last.
  static FusedProgram parse(std::string_view text);
  std::string print() const;
  void verify() const;

  bool reduces() const;
  bool is_step(int value) const { return value >= operands; }
  const FusedStep& step(int value) const { return steps[static_cast<std::size_t>(value - operands)]; }
  // Of every value whether it depends on a reduction.
  std::vector<bool> reduced() const;

  // The type of every value, and of every output. Throws what the ops' own inference throws.
  std::vector<TensorType> infer(std::span<const TensorType> operands) const;
  Types infer_outputs(std::span<const TensorType> operands) const;
};
Shape fused_shape(std::span<const TensorType> operands);  // the whole shape

struct FusedAttrs {
  Symbol program{};
  static AttrFields fields() { return {field("program", &FusedAttrs::program)}; }
};

// The program of a `fused` op's attribute, parsed once per process and kept. Any thread.
const FusedProgram& fused_program(Symbol program);

// fused(operands...) → one tensor an output.
TensorList fused(std::span<const Tensor> operands, const FusedProgram& program);

}  // namespace starling
