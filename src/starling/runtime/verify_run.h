#pragma once

#include <string>
#include <vector>

#include "starling/runtime/container.h"
#include "starling/runtime/verify.h"

namespace starling {

// What a step leaves behind: its results, and every variable of its graph.
struct Outcome {
  std::vector<Tensor> outputs;
  std::vector<Tensor> variables;
};

// A traced step that can be run from the same state any number of times, in several ways.
class VerifiedStep {
 public:
  VerifiedStep(const TraceFn& f, std::span<const Tensor> arguments, int threads);

  const Graph& graph() const { return trace_.graph; }
  const std::vector<bool>& assigned() const { return assigned_; }  // of each variable
  const std::vector<Tensor>& before() const { return before_; }    // the variables' values at the start

  Outcome eager();                                       // calls the function; puts all state back
  Outcome interpreted(const Graph& graph) const;         // op by op
  Outcome executed(const Graph& graph) const;            // lowered and planned
  Outcome doubled() const;                               // op by op in fp64
  Graph passed(std::span<const Pass> passes) const;      // the graph after these passes
  std::vector<Tensor> values(const Graph& graph) const;  // every value, op by op
  std::vector<Tensor> executed_values(const Graph& graph) const;

 private:
  Container container() const;

  TraceFn f_;
  std::vector<Tensor> arguments_;
  std::vector<Tensor> inputs_;  // arguments, then captured tensors
  int threads_;
  Trace trace_;
  std::vector<Tensor> before_;
  std::vector<bool> assigned_;
};

// |a - b| / |b|; infinite where one has a NaN that the other has not.
double relative_distance(const Tensor& a, const Tensor& b);
// The same for variables that both began as `before`: relative to |b - before|, with room for `rounding` of |b|.
double update_distance(const Tensor& a, const Tensor& b, const Tensor& before, double rounding);

// Finds the stage at which the step goes wrong. `differs` says whether an outcome does, and fills in which result.
using DiffersFn = std::function<bool(const Outcome&, VerifyFault&)>;
VerifyFault bisect(const VerifiedStep& step, std::span<const Pass> passes, const DiffersFn& differs);

}  // namespace starling
