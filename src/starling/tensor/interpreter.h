#pragma once

#include <memory>
#include <span>

#include "starling/tensor/tensor.h"

namespace starling::graph {
class Tracer;
}

namespace starling {

struct OpDef;
class Attrs;

// Executes ops: the eager interpreter runs an op now, a tracer appends it to a graph. Each thread has a stack of
// interpreters; ops go to the top one. The autograd tape is not on the stack: it records in both modes.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  virtual TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) = 0;

  // Applies an op whose first `targets.size()` outputs replace the values of `targets` (variables or gradient slots).
  // Eager execution writes in place, a tracer appends assigns.
  virtual void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                          std::span<const Tensor> targets) = 0;

  // pin() returns an id of the variable's current value; pinned() returns that value even after later assigns. Eager
  // execution detects changes by storage versions instead: -1, and the tensor itself.
  virtual int pin(const Tensor&) { return -1; }
  virtual Tensor pinned(const Tensor& variable, int) { return variable; }

  // Records a dependence on this flag (training mode, say): a trace is valid only while the flag keeps its value.
  virtual void depends_on(const std::shared_ptr<const bool>&) {}

  // Tracer that finally receives the applied ops, through other interpreters if need be; null in eager execution.
  virtual graph::Tracer* tracer() { return nullptr; }
};

Interpreter& current_interpreter();
Interpreter& eager_interpreter();  // bottom of every stack; defined in kernels

class InterpreterScope {
 public:
  explicit InterpreterScope(Interpreter& top);
  ~InterpreterScope();
  InterpreterScope(const InterpreterScope&) = delete;
  InterpreterScope& operator=(const InterpreterScope&) = delete;

 private:
  Interpreter* before_;
};

}  // namespace starling
