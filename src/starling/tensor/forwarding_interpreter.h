#pragma once

#include "starling/tensor/interpreter.h"

namespace starling {

// Forwards everything to the interpreter below, which must outlive it. What stands on another interpreter derives from
// this and overrides what it changes: a function added to Interpreter then reaches the bottom of the stack through all
// of them.
class ForwardingInterpreter : public Interpreter {
 public:
  explicit ForwardingInterpreter(Interpreter& below) : below_(below) {}
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    return below_.apply(op, inputs, attrs);
  }
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override {
    below_.apply_into(op, inputs, attrs, targets);
  }
  int pin(const Tensor& variable) override { return below_.pin(variable); }
  Tensor pinned(const Tensor& variable, int value) override { return below_.pinned(variable, value); }
  void depends_on(const std::shared_ptr<const bool>& flag) override { below_.depends_on(flag); }
  graph::Tracer* tracer() override { return below_.tracer(); }

 protected:
  Interpreter& below_;
};

}  // namespace starling
