#pragma once

#include <span>

#include "starling/ops/def/op_def.h"

namespace starling {

// Applies an op: the interpreter on top of the stack executes it, and the tape records it if a gradient may be needed.
// All C++ op functions end here.
TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs = {});
inline TensorList apply(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {}) {
  return apply(op, std::span(inputs.begin(), inputs.size()), attrs);
}

// Applies an op whose first outputs replace the values of `targets`, in place or, while tracing, as assigns.
void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, std::span<const Tensor> targets);

// As apply(), returning the first output only.
template <class Inputs>
Tensor apply1(const OpDef& op, const Inputs& inputs, const Attrs& attrs = {}) {
  return std::move(apply(op, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs)[0]);
}
inline Tensor apply1(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {}) {
  return std::move(apply(op, inputs, attrs)[0]);
}

// Calls an op with attributes given as text, such as {"axes", "[0]"} for "sum", as bindings and graph files do.
TensorList call(std::string_view name, std::span<const Tensor> inputs,
                std::span<const std::pair<std::string, std::string>> attrs = {});

// Checks the number of inputs and infers output types; the first step of every interpreter.
Types infer(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs);
Types types_of(std::span<const Tensor> tensors);

// True if ops are recorded for differentiation on this thread.
bool grad_enabled();
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
// no_grad([&] { … }) runs a function without recording it.
template <class F>
auto no_grad(F&& f) {
  const NoGrad off;
  return std::forward<F>(f)();
}

// True if the tape would record this call.
bool wants_record(const OpDef& op, std::span<const Tensor> inputs);
// Tape hook: records `outputs` as made by this call. Defined in autograd.
void record(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Attrs& attrs);

}  // namespace starling
