#include "starling/runtime/verify/verify_run.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/precision.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/runtime/execution/instance.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling::runtime {
namespace {

Tensor snapshot(const Tensor& tensor) {
  const NoGrad no_grad;
  return copied(kernels::densify(tensor.detach()));
}

// Scope guard that restores variables and their gradient slots on destruction.
class StateGuard {
 public:
  explicit StateGuard(const graph::Graph& graph) : graph_(graph) {
    for (const auto& variable : graph.variables) {
      values_.push_back(snapshot(variable.tensor));
      slots_.push_back(variable.tensor.grad());
      slot_values_.push_back(slots_.back().defined() ? snapshot(slots_.back()) : Tensor());
    }
  }
  ~StateGuard() {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Tensor& variable = graph_.variables[i].tensor;
      copy_into(variable, values_[i]);
      if (slots_[i].defined()) copy_into(slots_[i], slot_values_[i]);
      variable.set_grad(slots_[i]);
    }
  }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  const graph::Graph& graph_;
  std::vector<Tensor> values_, slots_, slot_values_;
};

// Eager code may have replaced the tensor in a slot that is a variable of the program.
Tensor slot_now(const graph::Trace& trace, const Tensor& variable) {
  for (const auto& owner : trace.accumulating) {
    if (owner.name() + ".grad" == variable.name() && owner.grad().defined()) return owner.grad();
  }
  return variable;
}

graph::Graph with_all_values(graph::Graph graph) {
  graph.outputs.resize(graph.values().size());
  std::iota(graph.outputs.begin(), graph.outputs.end(), 0);
  return graph;
}

Tensor as_double(const Tensor& tensor) {
  const Tensor host = to(tensor, kCpu);
  return is_float(host.dtype()) ? from_doubles(host.to_vector(), host.shape(), DType::f64) : host;
}

}  // namespace

VerifiedStep::VerifiedStep(const graph::TraceFn& f, std::span<const Tensor> arguments, int threads)
    : f_(f),
      arguments_(arguments.begin(), arguments.end()),
      threads_(threads > 0 ? threads : num_threads()),
      trace_(graph::trace(f, arguments)),
      assigned_(trace_.graph.variables.size(), false) {
  for (const auto& argument : arguments_) inputs_.push_back(kernels::densify(argument));
  for (const auto& hidden : trace_.hidden_inputs) inputs_.push_back(kernels::densify(hidden));
  for (const auto& variable : graph().variables) before_.push_back(snapshot(variable.tensor));
  for (const auto& node : graph().nodes()) {
    if (acts_outside(graph(), node)) {
      fail(
          "[verify] expected a step that acts on its variables alone, got {}, which would act once for each way of "
          "running it",
          node.op->name);
    }
    if (is_op(node, "assign")) assigned_[static_cast<std::size_t>(source_index(node))] = true;
  }
}

Container VerifiedStep::container() const {
  Container own;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    Tensor value = snapshot(before_[i]);
    value.set_name(graph().variables[i].name);
    own.set(graph().variables[i].name, value);
  }
  return own;
}

namespace {

std::vector<Tensor> variables_of(const graph::Graph& graph, const Container& container) {
  std::vector<Tensor> all;
  for (const auto& variable : graph.variables) all.push_back(container.get(variable.name));
  return all;
}

}  // namespace

Outcome VerifiedStep::eager() {
  const StateGuard guard(graph());
  const ThreadScope threads(threads_);
  const SiteCounts sites;  // same random numbers as in the trace
  Outcome outcome;
  const TensorList out = f_({arguments_.data(), arguments_.size()});
  for (const auto& tensor : out) outcome.outputs.push_back(snapshot(tensor));
  for (const auto& variable : graph().variables)
    outcome.variables.push_back(snapshot(slot_now(trace_, variable.tensor)));
  return outcome;
}

Outcome VerifiedStep::interpreted(const graph::Graph& graph) const {
  const ThreadScope threads(threads_);
  const Container own = container();
  const TensorList out = interpret(graph, own, inputs_);
  return {{out.begin(), out.end()}, variables_of(this->graph(), own)};
}

namespace {

std::vector<Tensor> run_executable(const graph::Graph& graph, const Container& container,
                                   std::span<const Tensor> inputs, int threads, bool reuse) {
  const auto executable = Executable::build(graph, {.threads = threads, .reuse_memory = reuse});
  Instance instance(executable, container);
  std::vector<Tensor> outputs;
  for (graph::ValueId id : graph.outputs) {
    const TensorType& type = graph.value(id).type;
    outputs.push_back(empty(type.shape, type.dtype, executable->device()));
  }
  instance.run(inputs, outputs);
  return outputs;
}

}  // namespace

Outcome VerifiedStep::executed(const graph::Graph& graph) const {
  const Container own = container();
  auto outputs = run_executable(graph, own, inputs_, threads_, true);
  return {std::move(outputs), variables_of(this->graph(), own)};
}

std::vector<Tensor> VerifiedStep::values(const graph::Graph& graph) const {
  const ThreadScope threads(threads_);
  const TensorList out = interpret(with_all_values(graph), container(), inputs_);
  return {out.begin(), out.end()};
}

std::vector<Tensor> VerifiedStep::executed_values(const graph::Graph& graph) const {
  return run_executable(with_all_values(graph), container(), inputs_, threads_, false);
}

Outcome VerifiedStep::doubled() const {
  const ThreadScope threads(threads_);
  const graph::Graph wide = in_double(graph());
  Container own;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    // Variables are written in place: one that needs no conversion must be copied too.
    Tensor value = snapshot(as_double(before_[i]));
    value.set_name(wide.variables[i].name);
    own.set(wide.variables[i].name, value);
  }
  std::vector<Tensor> inputs;
  for (const auto& input : inputs_) inputs.push_back(as_double(input));
  const TensorList out = interpret(wide, own, inputs);
  return {{out.begin(), out.end()}, variables_of(wide, own)};
}

graph::Graph VerifiedStep::passed(std::span<const graph::Pass> passes) const {
  return run_passes(graph(), {}, {}, passes).graph;
}

namespace {

// Norms of a - b, and of b or of b - before.
struct Norms {
  double difference = 0, size = 0;
  bool nan = false;
};

Norms norms(const std::vector<double>& a, const std::vector<double>& b) {
  Norms sum;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      if (std::isfinite(b[i])) sum.size += b[i] * b[i];
      continue;
    }
    sum.nan |= !std::isfinite(a[i]) || !std::isfinite(b[i]);
    sum.difference += (a[i] - b[i]) * (a[i] - b[i]);
    sum.size += b[i] * b[i];
  }
  return {std::sqrt(sum.difference), std::sqrt(sum.size), sum.nan};
}

double ratio(const Norms& n, double size) {
  if (n.nan) return std::numeric_limits<double>::infinity();
  return n.difference == 0 ? 0 : n.difference / std::max(size, 1e-300);
}

}  // namespace

double relative_distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const Norms n = norms(a.to_vector(), b.to_vector());
  return ratio(n, n.size);
}

double update_distance(const Tensor& a, const Tensor& b, const Tensor& before, double rounding) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const auto now = b.to_vector();
  const Norms n = norms(a.to_vector(), now);
  const double moved = norms(before.to_vector(), now).difference;
  return ratio(n, (std::isfinite(moved) ? moved : 0) + rounding * n.size);
}

}  // namespace starling::runtime
