#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "starling/ops/op_def.h"

namespace starling {

// A chain of elementwise ops run as one: what the fusion pass makes of their nodes. Values are numbered operands first,
// then one a step. Its text form lists steps, then outputs:
//   t0=add(a0,a1); t1=tanh(t0); o0=t1; o1=t0
// Text may also give a call to an output at once: o0=mul(t1,a2). An op's attributes follow its operands:
// leaky_relu(a0,0.1).
struct FusedStep {
  const OpDef* op = nullptr;         // elementwise
  std::vector<int> in{};             // numbers of values before it
  std::vector<double> attributes{};  // all of them, in order

  static constexpr std::size_t kMaxAttributes = 2;
  Attrs attrs() const;
};
struct FusedProgram {
  int operands = 0;
  std::vector<FusedStep> steps{};
  std::vector<int> outputs{};  // numbers of values

  // Throws when a step names an op that is not elementwise, a value that does not exist yet, or too many or too few
  // operands; when there is no output; on text of another form. Operands are those that the text names, a0 to the last.
  static FusedProgram parse(std::string_view text);
  std::string print() const;
  void verify() const;

  // The type of every value. Throws what the ops' own inference throws.
  std::vector<TensorType> infer(std::span<const TensorType> operands) const;
};

struct FusedAttrs {
  Symbol program{};
  static AttrFields fields() { return {field("program", &FusedAttrs::program)}; }
};

// The program of a `fused` op's attribute, parsed once per process and kept. Any thread.
const FusedProgram& fused_program(Symbol program);

// fused(operands...) → one tensor an output, each of the shape that all operands broadcast to.
TensorList fused(std::span<const Tensor> operands, const FusedProgram& program);

}  // namespace starling
