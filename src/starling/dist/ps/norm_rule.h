#pragma once

#include <memory>

#include "starling/optim/optimizer_kinds.h"
#include "starling/tensor/tensor.h"

namespace starling::dist::ps {

// Sums of squares over a piece of a tensor, or over all of it: of the weights, and of the gradient (lars) or the update
// (lamb) that the rule divides their norm by.
struct NormSums {
  double weights = 0;
  double others = 0;
};

// Rule with norms of whole tensors (lars, lamb), applied to a piece: the norms come from the servers of all pieces.
// Equals the optimizer's own op up to rounding.
class NormRule {
 public:
  virtual ~NormRule() = default;
  virtual NormSums measure(const Tensor& gradient) = 0;  // changes nothing
  virtual void apply(const Tensor& gradient, const NormSums& whole) = 0;
};

// Rule of an optimizer over one piece; null if it needs no norms. The weights are the optimizer's only parameter; its
// state and learning rate stay those of the optimizer.
std::unique_ptr<NormRule> norm_rule_of(optim::Optimizer& optimizer, double lr_scale);

// True if steps of these optimizers depend on norms of whole tensors.
bool needs_norms(const optim::OptimizerMaker& optimizer);

}  // namespace starling::dist::ps
