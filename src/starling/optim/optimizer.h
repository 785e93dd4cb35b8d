#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::optim {

// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  double lr_scale = 1;                                // of the optimizer's learning rate
  std::optional<double> weight_decay = std::nullopt;  // instead of the optimizer's own
};

// Turns gradients into better parameters. step() uses up the gradients: it updates every parameter that has one,
// empties the slots and moves the default random generator to its next step. The same lines work at once and inside
// compile().
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual void step() = 0;
  virtual double lr() const = 0;
  virtual void set_lr(double lr) = 0;  // seen by compiled steps too

  // All that a checkpoint needs, by name: learning rate, moments, counts.
  virtual std::vector<std::pair<std::string, Tensor>> state() const = 0;
};

}  // namespace starling::optim
