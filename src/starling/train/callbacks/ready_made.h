#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "starling/train/callback.h"

namespace starling {

struct EarlyStopOptions {
  std::string metric{};          // empty: the evaluation's first metric
  std::int64_t patience = 3;     // evaluations without improvement before stopping
  double min_delta = 0;          // least change that counts as an improvement
  std::optional<bool> lowest{};  // lower is better; not set: decided by the metric
};
// Ends the run when a metric has stopped improving.
CallbackPtr early_stop(const EarlyStopOptions& options = {});

struct TraceOptions {
  std::filesystem::path file{};  // output: a Chrome trace of all ranks
  std::int64_t from = 3;         // steps to skip first, since they compile and warm caches
  std::int64_t steps = 8;
};
CallbackPtr trace_steps(const TraceOptions& options);

struct AverageOptions {
  double decay = 0.999;        // of the moving average; 0: plain mean (SWA)
  std::int64_t from_step = 0;  // first step to average
  std::int64_t every = 1;      // steps between two averaged ones
  bool keep = false;           // the network keeps the averaged weights at the end
};
// Averages the weights during training and evaluates the average: each metric is also reported as "ema_<name>" (or
// "swa_<name>") once there is an average. Add it before callbacks that use those metrics.
CallbackPtr average_weights(const AverageOptions& options = {});

}  // namespace starling
