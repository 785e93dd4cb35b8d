#pragma once

#include "starling/base/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct RegressOptions {
  enum class Loss { mse, l1, huber, smooth_l1 };
  Loss loss = Loss::mse;
  double delta = 1;  // error at which huber and smooth_l1 become linear
  static Settings settings();
};
// Regression. Fields: samples, targets [n, d…] of any dtype. The network returns as many values per sample.
ObjectivePtr regress(const RegressOptions& options = {});

}  // namespace starling
