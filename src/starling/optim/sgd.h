#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/ops/state.h"
#include "starling/tensor/tensor.h"

namespace starling::optim {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  std::string name = "sgd";  // of its state; two optimizers in one compiled step need two names
};

// Stochastic gradient descent. step() uses up the gradients: it updates every parameter that has one, empties the slots
// and moves the default random generator to its next step. The same lines work at once and inside compile().
class Sgd {
 public:
  Sgd(std::vector<Tensor> parameters, const SgdOptions& options);

  void step();
  double lr() const;
  void set_lr(double lr);  // seen by compiled steps too

  // Learning rate and velocities by name, for checkpoints.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  std::vector<Tensor> parameters_;
  std::vector<Tensor> velocities_;
  Tensor lr_;
  SgdAttrs attrs_;
};

}  // namespace starling::optim
