#include "starling/autograd/recompute.h"

#include "starling/autograd/autograd.h"
#include "starling/autograd/replay.h"
#include "starling/base/error.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/hold.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling {
namespace {

using Outside = autograd::Surroundings::Outside;

// State of one call of recompute(), owned by the op that the tape keeps.
class Region {
 public:
  Region(TensorListFn f, std::span<const Tensor> inputs) : f_(std::move(f)) {
    for (const auto& input : inputs) {
      inputs_.push_back({input, SavedTensor::input(input, true)});
      around_.add_differentiable(input);
    }
  }

  TensorList first_run() {
    const NoGrad off;
    autograd::Watcher watcher(around_);
    const InterpreterScope scope(watcher);
    const TensorList in = inputs();
    TensorList outputs = f_({in.data(), in.size()});
    for (auto& output : outputs) {
      check(output.defined(), "[recompute] expected the function to return tensors, got an empty handle");
      output = dense(output).detach();  // a returned input must not be marked as made here
    }
    return outputs;
  }

  TensorList differentiable() const {
    TensorList all;
    for (const auto& outside : around_.differentiable) all.push_back(outside.original);
    return all;
  }

  TensorList backward(const GradCall& c) const {
    around_.check_flags();
    const Tensor* arrived = nullptr;
    for (const auto& g : c.grads) {
      if (g.defined() && !arrived) arrived = &g;
    }
    if (!arrived) return {};
    const bool create_graph = grad_enabled();
    const GradMode on(true);
    const auto floor = next_grad_sequence();
    TensorList wanted;
    const TensorList outputs = second_run(c.op, *arrived, create_graph, wanted);
    check(outputs.size() == c.grads.size(), "[recompute] expected {} results as in the first run, got {}",
          c.grads.size(), outputs.size());
    return gradients_since(floor, {outputs.data(), outputs.size()}, {wanted.data(), wanted.size()}, c.grads,
                           {.create_graph = create_graph, .allow_unused = true});
  }

 private:
  TensorList inputs() const {
    TensorList all;
    for (const auto& input : inputs_) all.push_back(input.original);
    return all;
  }

  TensorList second_run(const OpDef& op, const Tensor& arrived, bool create_graph, TensorList& wanted) const {
    autograd::Replay replay;
    for (const auto& outside : around_.differentiable) {
      const Tensor value = as_it_was(outside, op, create_graph);
      wanted.push_back(value);
      // While tracing, hold() keeps the second run distinct from the first (for CSE) and delays it until it is needed.
      const Tensor used = arrived.traced() && value.traced() ? hold(value, arrived) : value;
      if (!same(used, outside.original)) replay.put(outside.original, used);
    }
    for (const auto& outside : around_.read) replay.put(outside.original, outside.saved.restore(op, nullptr));
    TensorList inputs;
    for (const auto& input : inputs_) {
      const Tensor value = input.saved.restore(op, nullptr);
      const bool plain = arrived.traced() && value.traced() && !value.requires_grad();
      inputs.push_back(plain ? hold(value, arrived) : input.original);
    }
    const SiteReplay sites(sites_);
    const InterpreterScope scope(replay);
    return f_({inputs.data(), inputs.size()});
  }

  // Value at the time of the first run: the tensor itself or, for a traced variable assigned since, a new leaf.
  static Tensor as_it_was(const Outside& outside, const OpDef& op, bool create_graph) {
    Tensor value = outside.saved.restore(op, nullptr);
    if (value.requires_grad()) return value;
    check(!create_graph, "[recompute] expected '{}' not to be assigned before it is differentiated twice",
          outside.original.name());
    value = value.detach();
    return value.set_requires_grad();
  }

  TensorListFn f_;
  SitePoint sites_;
  std::vector<Outside> inputs_;
  autograd::Surroundings around_;
};

}  // namespace

TensorList recompute(const TensorListFn& f, std::span<const Tensor> inputs) {
  for (const auto& input : inputs) check(input.defined(), "[recompute] expected tensors, got an empty handle");
  if (!grad_enabled()) return f(inputs);
  const auto region = std::make_shared<Region>(f, inputs);
  TensorList outputs = region->first_run();
  const TensorList from = region->differentiable();
  if (from.empty()) return outputs;
  auto op = std::make_shared<OpDef>();
  op->name = "recompute";
  op->saves = kSavesNothing;
  op->gradient = [region](const GradCall& c) { return region->backward(c); };
  record(std::move(op), {from.data(), from.size()}, {outputs.data(), outputs.size()});
  return outputs;
}

Tensor recompute(const TensorFn& f, const Tensor& x) {
  return recompute([f](std::span<const Tensor> in) { return TensorList{f(in[0])}; }, {&x, 1})[0];
}

}  // namespace starling
