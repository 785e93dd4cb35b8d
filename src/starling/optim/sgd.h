#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  std::string name = "sgd";  // prefix of its variables: "sgd.lr"; unique among the optimizers of one compiled step
  static Settings settings();
};

// Stochastic gradient descent: v = momentum · v + g, w -= lr · v, or with Nesterov's momentum lr · (g + momentum · v).
// Weight decay adds to the gradient.
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<Tensor> parameters, const SgdOptions& options = {});
  explicit Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});

  const op::SgdAttrs& attrs() const { return attrs_; }

 private:
  void update(std::span<const Tensor> targets, const Tensor& gradient, double weight_decay,
              const op::UpdateScalars& scalars) override;

  op::SgdAttrs attrs_;
};

}  // namespace starling::optim
