#pragma once

#include <memory>
#include <span>

#include "starling/tensor/tensor.h"

namespace starling {

struct OpDef;
class Attrs;
class Tracer;

// Gives an op its meaning: the eager interpreter runs it now, a tracer appends it to a graph. A stack of them stands
// per thread; ops go to the top one. The tape is not on the stack: it records beside whichever is on top, in both
// modes.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  virtual TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) = 0;

  // Applies an op whose first `targets.size()` outputs replace the values of `targets` (variables or gradient slots).
  // Eager writes in place, a tracer appends assigns.
  virtual void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                          std::span<const Tensor> targets) = 0;

  // The value a variable has now, by number, and that value again later, when it may have been assigned another. Eager
  // execution finds out by versions of memory instead: -1, and the tensor itself.
  virtual int pin(const Tensor&) { return -1; }
  virtual Tensor pinned(const Tensor& variable, int) { return variable; }

  // Tells that what is being done depends on this flag (training or not): a trace holds only while it stays the same.
  virtual void depends_on(const std::shared_ptr<const bool>&) {}

  // The tracer that gets what is applied, maybe by way of others; null when ops run at once.
  virtual Tracer* tracer() { return nullptr; }
};

Interpreter& current_interpreter();
Interpreter& eager_interpreter();  // the bottom of every stack; lives in kernels

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
