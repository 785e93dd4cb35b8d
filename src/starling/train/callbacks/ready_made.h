#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "starling/train/callback.h"

namespace starling {

struct EarlyStopOptions {
  std::string metric{};          // empty: the first of the evaluation
  std::int64_t patience = 3;     // evaluations without a better value that are put up with
  double min_delta = 0;          // what counts as better
  std::optional<bool> lowest{};  // the lowest value is the best; not set: as the metric says
};
// Ends the run when a metric has stopped improving.
CallbackPtr early_stop(const EarlyStopOptions& options = {});

struct TraceOptions {
  std::filesystem::path file{};  // gets a Chrome trace, with all ranks where there are several
  std::int64_t from = 3;         // steps of this sitting that go before; they compile and warm caches
  std::int64_t steps = 8;
};
CallbackPtr trace_steps(const TraceOptions& options);

struct AverageOptions {
  double decay = 0.999;        // of the moving average; 0: the plain mean of all that was taken (SWA)
  std::int64_t from_step = 0;  // nothing is taken before
  std::int64_t every = 1;      // steps between two that are taken
  bool keep = false;           // the network ends with the averaged weights
};
// Averages the weights beside training and evaluates with the average: each metric is reported again as
// "ema_<name>" (or "swa_<name>") once something was taken. Add it before callbacks that look at those.
CallbackPtr average_weights(const AverageOptions& options = {});

}  // namespace starling
