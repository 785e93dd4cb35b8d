#pragma once

#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

// Optimizer with one update rule of ops/updates; A are the attributes of its op.
template <class A>
class RuleOptimizer : public Optimizer {
 protected:
  RuleOptimizer(std::vector<ParameterGroup> groups, Setup setup, const A& attrs)
      : Optimizer(std::move(groups), counting(std::move(setup))), attrs_(attrs) {
    expect_served();
  }

  // Setup from options with a name, a rate and a weight decay; states start at 0.
  template <class O>
  static Setup setup(const O& options, const std::vector<std::string>& states) {
    Setup made{.name = options.name, .lr = options.lr, .weight_decay = options.weight_decay};
    for (const auto& state : states) made.states.push_back({state});
    return made;
  }

  void update(std::span<const Tensor> targets, const Tensor& gradient, double weight_decay,
              const op::UpdateScalars& scalars) override {
    A attrs = attrs_;
    attrs.weight_decay = weight_decay;
    starling::op::update(op(), attrs, targets, gradient, scalars);
  }

 private:
  static const OpDef& op() {
    static const OpDef& found = find_op(A::kName);
    return found;
  }
  static Setup counting(Setup setup) {
    setup.counts = A::kScalars > 1;
    return setup;
  }
  // Refuses invalid options at construction, not at the first step.
  void expect_served() const {
    std::vector<TensorType> types(attrs_.states() + 2, TensorType{DType::f32, {}});
    for (DType dtype : {DType::f32, DType::i64, DType::f64}) types.push_back({dtype, {}});
    types.resize(attrs_.states() + 2 + A::kScalars);
    infer(op(), types, attrs_);
  }

  A attrs_;
};

inline std::vector<ParameterGroup> one_group(std::vector<Tensor> parameters) {
  return {{.parameters = std::move(parameters)}};
}

}  // namespace starling::optim
