#include "starling/dist/ps/norm_rule.h"

#include <cmath>
#include <optional>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/state.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/updates/lamb.h"
#include "starling/ops/updates/lars.h"
#include "starling/runtime/compile.h"

namespace starling::dist::ps {
namespace {

Tensor squares(const Tensor& x) { return sum(mul(x, x)); }

Tensor state_named(const optim::Optimizer& optimizer, const std::string& ending) {
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name.ends_with("." + ending)) return tensor;
  }
  fail("[ps] expected state '{}' of the optimizer, got none", ending);
}

// Two programs: one returns the sums of squares, one makes the step with a given rate.
class CompiledRule : public NormRule {
 public:
  CompiledRule(optim::Optimizer& optimizer, double lr_scale)
      : optimizer_(optimizer), lr_scale_(lr_scale), weights_(optimizer.parameters().at(0)) {}

 protected:
  double lr() const { return optimizer_.lr() * lr_scale_; }
  static NormSums sums_of(const TensorList& made) { return {made[0].item(), made[1].item()}; }

  optim::Optimizer& optimizer_;
  double lr_scale_;
  Tensor weights_;
  std::optional<CompiledFunction> measure_, apply_;
};

class LarsRule final : public CompiledRule {
 public:
  LarsRule(optim::Optimizer& optimizer, double lr_scale, const op::LarsUpdateAttrs& attrs)
      : CompiledRule(optimizer, lr_scale), attrs_(attrs), velocity_(state_named(optimizer, "velocity")) {
    measure_.emplace(
        [this](std::span<const Tensor> in) {
          return TensorList{squares(weights_), squares(in[0])};
        },
        CompileOptions{});
    apply_.emplace(
        [this](std::span<const Tensor> in) {
          const Tensor decayed = add(in[0], mul(weights_, attrs_.weight_decay));
          const Tensor velocity = add(mul(velocity_, attrs_.momentum), mul(decayed, in[1]));
          assign(velocity_, velocity);
          assign(weights_, sub(weights_, velocity));
          return TensorList{};
        },
        CompileOptions{});
  }

  NormSums measure(const Tensor& gradient) override { return sums_of(measure_->call({&gradient, 1})); }

  void apply(const Tensor& gradient, const NormSums& whole) override {
    const double w = std::sqrt(whole.weights), g = std::sqrt(whole.others);
    const double ratio = w > 0 && g > 0 ? attrs_.trust * w / (g + attrs_.weight_decay * w + attrs_.eps) : 1;
    const Tensor in[] = {gradient, scalar(lr() * ratio, gradient.dtype())};
    apply_->call(in);
  }

 private:
  op::LarsUpdateAttrs attrs_;
  Tensor velocity_;
};

class LambRule final : public CompiledRule {
 public:
  LambRule(optim::Optimizer& optimizer, double lr_scale, const op::LambUpdateAttrs& attrs)
      : CompiledRule(optimizer, lr_scale), attrs_(attrs), count_(state_named(optimizer, "step")) {
    const auto state = optimizer.state();  // the moments come last, in the order of the rule's states
    first_ = state.at(state.size() - 2).second;
    second_ = state.back().second;
    measure_.emplace(
        [this](std::span<const Tensor> in) {
          return TensorList{squares(weights_), squares(direction(in, moments(in[0])))};
        },
        CompileOptions{});
    apply_.emplace(
        [this](std::span<const Tensor> in) {
          const Moments next = moments(in[0]);
          const Tensor moved = sub(weights_, mul(direction(in, next), in[3]));
          assign(first_, next.first);
          assign(second_, next.second);
          assign(weights_, moved);
          return TensorList{};
        },
        CompileOptions{});
  }

  NormSums measure(const Tensor& gradient) override {
    const Tensor in[] = {gradient, correction(attrs_.beta1), correction(attrs_.beta2)};
    return sums_of(measure_->call(in));
  }

  void apply(const Tensor& gradient, const NormSums& whole) override {
    const double w = std::sqrt(whole.weights), u = std::sqrt(whole.others);
    const double ratio = w > 0 && u > 0 ? w / u : 1;
    const Tensor in[] = {gradient, correction(attrs_.beta1), correction(attrs_.beta2),
                         scalar(lr() * ratio, gradient.dtype())};
    apply_->call(in);
    *count_.data<std::int64_t>() += 1;
  }

 private:
  struct Moments {
    Tensor first, second;
  };
  Moments moments(const Tensor& g) const {
    return {add(mul(first_, attrs_.beta1), mul(g, 1 - attrs_.beta1)),
            add(mul(second_, attrs_.beta2), mul(mul(g, g), 1 - attrs_.beta2))};
  }
  // in: gradient, corrections of the first and second moment.
  Tensor direction(std::span<const Tensor> in, const Moments& m) const {
    const Tensor root = add(sqrt(mul(m.second, in[2])), attrs_.eps);
    return add(div(mul(m.first, in[1]), root), mul(weights_, attrs_.weight_decay));
  }
  // Of the step that is to be made.
  Tensor correction(double beta) const {
    const double t = static_cast<double>(*count_.data<std::int64_t>()) + 1;
    return scalar(1 / (1 - std::pow(beta, t)), weights_.dtype());
  }

  op::LambUpdateAttrs attrs_;
  Tensor count_, first_, second_;
};

}  // namespace

std::unique_ptr<NormRule> norm_rule_of(optim::Optimizer& optimizer, double lr_scale) {
  const Tensor weights = optimizer.parameters().at(0);
  // The rule and its numbers are those of the op that a step is traced to.
  CompiledFunction traced(
      [&](std::span<const Tensor> in) {
        weights.set_grad(in[0]);
        optimizer.step();
        return TensorList{};
      },
      CompileOptions{});
  const Tensor like = zeros(weights.shape(), weights.dtype());
  traced.prepare({&like, 1});
  for (const auto& node : traced.traced_graph().nodes()) {
    if (node.op->name == op::LarsUpdateAttrs::kName)
      return std::make_unique<LarsRule>(optimizer, lr_scale, node.attrs.as<op::LarsUpdateAttrs>());
    if (node.op->name == op::LambUpdateAttrs::kName)
      return std::make_unique<LambRule>(optimizer, lr_scale, node.attrs.as<op::LambUpdateAttrs>());
  }
  return nullptr;
}

bool needs_norms(const optim::OptimizerMaker& optimizer) {
  if (!optimizer) return false;
  Tensor one = zeros({1});
  one.set_name("one").set_requires_grad();
  const auto made = optimizer({{.parameters = {one}}});
  return norm_rule_of(*made, 1) != nullptr;
}

}  // namespace starling::dist::ps
