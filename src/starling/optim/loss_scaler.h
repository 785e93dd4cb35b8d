#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/base/settings.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

struct LossScalerOptions {
  double initial = 65536;
  double growth = 2;     // after `interval` good steps in a row
  double backoff = 0.5;  // after a step that was skipped
  std::int64_t interval = 2000;
  std::string name = "loss_scale";  // of its state
  static Settings settings();
};

// Dynamic loss scaling: gradients of 16 bits of a loss times a scale do not vanish. A step whose gradients overflow is
// skipped and the scale halved; after many good ones it doubles. Scale and count are variables and every decision is
// part of the compiled step: nothing is read on the host.
//   scaler.scale(loss).backward();
//   scaler.step(opt);
// or, to clip in between: const Tensor skip = scaler.unscale(opt.parameters()); …; opt.step(skip); scaler.update(skip);
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  Tensor scale(const Tensor& loss) const;
  // Divides the gradients by the scale; whether one of them is not finite, bool[].
  Tensor unscale(const std::vector<Tensor>& parameters) const;
  void update(const Tensor& skip);
  Tensor step(Optimizer& optimizer);  // unscale, step, update; whether it was skipped

  double value() const { return scale_.item(); }
  std::vector<std::pair<std::string, Tensor>> state() const;  // for checkpoints

 private:
  LossScalerOptions options_;
  Tensor scale_;  // f32[]
  Tensor good_;   // f32[]: good steps in a row
};

}  // namespace starling::optim
