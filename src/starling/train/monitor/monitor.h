#pragma once

#include <filesystem>
#include <string>

#include "starling/train/callback.h"
#include "starling/train/monitor/event_writer.h"
#include "starling/train/monitor/options.h"

namespace starling {

// Context of a run to record beside its measurements.
struct MonitorContext {
  std::filesystem::path folder{};       // empty: the run folder
  train::HyperParameters parameters{};  // {"optimizer.lr", 0.05}, …
  std::string job{};                    // job file as text
};

// Callback that writes TensorBoard event files and log.jsonl. Add it after callbacks that report metrics and before
// those that save. A run without a folder is not monitored. A failed write is reported once, and training continues.
// Steps without a due record cost a few additions.
CallbackPtr monitor(const MonitorOptions& options = {}, MonitorContext context = {});

}  // namespace starling
