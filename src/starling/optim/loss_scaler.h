#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

struct LossScalerOptions {
  double initial = 65536;
  double growth = 2;     // factor after `interval` good steps in a row
  double backoff = 0.5;  // factor after a skipped step
  std::int64_t interval = 2000;
  std::string name = "loss_scale";  // prefix of its variables: "loss_scale.scale"
  static Settings settings();
};

// Dynamic loss scaling: scaling the loss keeps 16-bit gradients from underflowing. A step whose gradients overflow is
// skipped and the scale multiplied by `backoff`; after `interval` good steps it grows. Scale and count are variables
// and every decision is part of the compiled step: nothing is read on the host.
//   scaler.scale(loss).backward();
//   scaler.step(opt);
// or, to clip in between: const Tensor skip = scaler.unscale(opt.parameters()); …; opt.step(skip); scaler.update(skip);
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;
  // Divides the gradients by the scale; returns bool[], true if any of them is not finite.
  Tensor unscale(const std::vector<Tensor>& parameters) const;
  void update(const Tensor& skip);
  Tensor step(Optimizer& optimizer);  // unscale, step, update; returns bool[], true if skipped

  double value() const { return scale_.item(); }
  std::vector<std::pair<std::string, Tensor>> state() const;  // for checkpoints

 private:
  LossScalerOptions options_;
  Tensor scale_;  // f32[]
  Tensor good_;   // f32[]: good steps in a row
};

}  // namespace starling::optim
