#pragma once

#include "starling/base/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct RegressOptions {
  enum class Loss { mse, l1, huber, smooth_l1 };
  Loss loss = Loss::mse;
  double delta = 1;  // where huber and smooth_l1 become straight
  static Settings settings();
};
// Numbers. Fields: samples, numbers [n, d…] of any dtype. The network gives as many numbers for each sample.
ObjectivePtr regress(const RegressOptions& options = {});

}  // namespace starling
