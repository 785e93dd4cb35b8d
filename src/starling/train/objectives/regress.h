#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct RegressOptions {
  enum class Loss { mse, l1, huber, smooth_l1 };
  Loss loss = Loss::mse;
  double delta = 1;  // error at which huber and smooth_l1 become linear
  // Means and standard deviations of the targets, one each; empty: 0 and 1. The network then learns (target - mean) /
  // deviation, in which the loss is taken, while predictions and metrics are in the units of the targets.
  std::vector<double> target_means{};
  std::vector<double> target_deviations{};
  static Settings settings();
};
// Regression. Fields: samples, targets [n, d…] of any dtype. The network returns as many values per sample.
ObjectivePtr regress(const RegressOptions& options = {});

}  // namespace starling
