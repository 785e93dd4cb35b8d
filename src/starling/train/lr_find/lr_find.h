#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "starling/train/job/prepared_job.h"
#include "starling/train/monitor/plot/figure.h"

namespace starling::train {

struct LrFindOptions {
  double min = 1e-6;  // learning rate of the first step
  double max = 10;    // of the last
  std::int64_t steps = 200;
  std::function<bool()> stop{};  // polled after every step; true: return what was found so far
};

// One step of the ramp.
struct LrPoint {
  double lr = 0;
  double loss = 0;
  double smoothed = 0;  // mean of the losses of the steps around
};

struct LrFound {
  std::vector<LrPoint> points{};
  std::optional<double> suggested{};  // none: the loss did not fall
  bool diverged = false;              // the loss exploded before the last step, which ended the ramp
  bool interrupted = false;
};

// Trains the job's network from its first weights with a rate that grows exponentially from min to max, and stops when
// the loss explodes. Writes no files; the network of `prepared` is changed and of no use afterwards. The job's
// schedule, evaluations and callbacks take no part.
LrFound find_lr(const PreparedJob& prepared, const LrFindOptions& options);

// The rate at which the smoothed loss falls fastest, by the logarithm of the rate, before its lowest point; nullopt if
// it never falls.
std::optional<double> suggest_lr(const std::vector<LrPoint>& points);

std::string lr_table(const LrFound& found);  // some of the points
Figure lr_figure(const LrFound& found);      // throws without points

}  // namespace starling::train
