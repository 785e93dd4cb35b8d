#include "starling/dist/strategy/emso.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/strategy/state/on_host.h"
#include "starling/ops/def/attrs/update.h"

namespace starling {
namespace {

bool has_updates(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const auto& node) { return op::update_operands(*node.op, node.attrs).has_value(); });
}

}  // namespace

Settings EmsoOptions::settings() {
  using O = EmsoOptions;
  return {
      setting("inner", &O::inner, "steps that a worker makes on its rows of every batch", {.min = 1, .max = 10'000}),
      setting("gamma", &O::gamma, "how strongly these steps are tied to the weights that they began with", {.min = 0}),
      setting("every", &O::every, "batches between two averages of the weights", {.min = 1})};
}

// A step of the trainer: several runs of its program on the same inputs.
class Emso::InnerSteps final : public runtime::Program {
 public:
  InnerSteps(std::unique_ptr<runtime::Program> once, Emso& strategy) : once_(std::move(once)), strategy_(strategy) {}

  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    strategy_.mark();
    once_->run(inputs, outputs);
    strategy_.pull_back();
    for (std::int64_t i = 1; i < strategy_.inner_.inner; ++i) {
      once_->run(inputs, spare(outputs));
      strategy_.pull_back();
    }
  }
  const graph::Graph& graph() const override { return once_->graph(); }
  std::string explain() const override { return once_->explain(); }
  void set_profiler(Profiler* profiler) override { once_->set_profiler(profiler); }
  std::size_t memory_bytes() const override { return once_->memory_bytes(); }
  std::vector<graph::PassReport> reports() const override { return once_->reports(); }
  std::vector<TensorType> output_types() const override { return once_->output_types(); }

 private:
  // Outputs of steps after the first, which nobody reads.
  std::span<const Tensor> spare(std::span<const Tensor> outputs) {
    if (spare_.empty()) {
      for (const Tensor& one : outputs) spare_.push_back(empty(one.shape(), one.dtype(), one.device()));
    }
    return spare_;
  }

  std::unique_ptr<runtime::Program> once_;
  Emso& strategy_;
  std::vector<Tensor> spare_;
};

Emso::Emso(std::shared_ptr<Comm> comm, const EmsoOptions& options)
    : LocalSgd(std::move(comm), {.every = options.every}), inner_(options) {
  check(inner_.inner >= 1 && inner_.gamma >= 0, "[emso] expected at least 1 inner step and gamma ≥ 0, got {} and {}",
        inner_.inner, inner_.gamma);
}

std::string Emso::name() const {
  return fmt::format("emso({} ranks, {} inner steps, gamma {:g})", world(), inner_.inner, inner_.gamma);
}

std::unique_ptr<runtime::Program> Emso::build(const graph::Graph& global, const Container& container,
                                              const runtime::BuildOptions& options) {
  check(has_updates(global),
        "[emso] expected a program that computes gradients and updates the weights, which its inner steps repeat, got "
        "one without updates (train.accumulate: 1)");
  return std::make_unique<InnerSteps>(LocalSgd::build(global, container, options), *this);
}

void Emso::after_update(std::int64_t step, double weight) {
  check(weight == 0 || steps_made_ > 0,
        "[emso] expected workers that make its inner steps, got groups of workers (topology)");
  LocalSgd::after_update(step, weight);
}

void Emso::begin(const dist::TrainedState& state) {
  check(state.rule != nullptr, "[emso] expected the optimizer, whose rate the proximal step takes, got none");
  LocalSgd::begin(state);
  rule_ = state.rule;
  for (const auto& [name, tensor] : state.weights) {
    Weight weight{.tensor = tensor, .first = empty(tensor.shape(), tensor.dtype())};
    for (const auto& group : rule_->groups()) {
      for (const Tensor& parameter : group.parameters) {
        if (same(parameter, tensor)) weight.lr_scale = group.lr_scale;
      }
    }
    weights_.push_back(std::move(weight));
  }
}

void Emso::mark() {
  for (const Weight& one : weights_) copy_into(one.first, one.tensor);
}

void Emso::pull_back() {
  ++steps_made_;
  for (const Weight& one : weights_) {
    const double pull = rule_->lr() * one.lr_scale * inner_.gamma, part = pull / (1 + pull);
    dist::write_on_host(one.tensor, true, [&](const Tensor& host) {
      dist::scale_add(host.dtype(), host.numel(), part, one.first.raw(), 1 - part, host.raw());
    });
  }
}

std::vector<dist::LawCounter> Emso::counters() const {
  auto all = LocalSgd::counters();
  all.push_back({"inner_steps", static_cast<double>(steps_made_)});
  return all;
}

}  // namespace starling
