#pragma once

#include <string>
#include <vector>

#include "starling/runtime/container.h"
#include "starling/runtime/verify/verify.h"

namespace starling::runtime {

// Outcome of a step: its results, and every variable of its graph.
struct Outcome {
  std::vector<Tensor> outputs;
  std::vector<Tensor> variables;
};

// Traced step that can be run repeatedly from the same state, in several ways.
class VerifiedStep {
 public:
  VerifiedStep(const graph::TraceFn& f, std::span<const Tensor> arguments, int threads);

  const graph::Graph& graph() const { return trace_.graph; }
  const std::vector<bool>& assigned() const { return assigned_; }  // by variable
  const std::vector<Tensor>& before() const { return before_; }    // initial values of the variables

  Outcome eager();                                                 // calls the function; restores all state
  Outcome interpreted(const graph::Graph& graph) const;            // op by op
  Outcome executed(const graph::Graph& graph) const;               // lowered and planned
  Outcome doubled() const;                                         // op by op in fp64
  graph::Graph passed(std::span<const graph::Pass> passes) const;  // graph after these passes
  std::vector<Tensor> values(const graph::Graph& graph) const;     // all values, op by op
  std::vector<Tensor> executed_values(const graph::Graph& graph) const;

 private:
  Container container() const;

  graph::TraceFn f_;
  std::vector<Tensor> arguments_;
  std::vector<Tensor> inputs_;  // arguments, then captured tensors
  int threads_;
  graph::Trace trace_;
  std::vector<Tensor> before_;
  std::vector<bool> assigned_;
};

// |a - b| / |b|; infinite if only one has a NaN.
double relative_distance(const Tensor& a, const Tensor& b);
// Distance of variables that both began as `before`: relative to |b - before|, with room for `rounding` of |b|.
double update_distance(const Tensor& a, const Tensor& b, const Tensor& before, double rounding);

// Finds the first stage at which the step goes wrong. `differs` tests an outcome and fills in the differing result.
using DiffersFn = std::function<bool(const Outcome&, VerifyFault&)>;
VerifyFault bisect(const VerifiedStep& step, std::span<const graph::Pass> passes, const DiffersFn& differs);

}  // namespace starling::runtime
