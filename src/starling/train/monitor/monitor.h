#pragma once

#include <filesystem>
#include <string>

#include "starling/train/callback.h"
#include "starling/train/monitor/event_writer.h"
#include "starling/train/monitor/options.h"

namespace starling {

// What is worth keeping of a run beside what it measures.
struct MonitorContext {
  std::filesystem::path folder{};  // empty: that of the run
  HyperParameters parameters{};    // {"optimizer.lr", 0.05}, …
  std::string job{};               // as text
};

// Writes TensorBoard's event files and log.jsonl beside the training. Add it after callbacks that report metrics and
// before those that save. A run that leaves no files is not monitored. What cannot be written is told once, and
// training goes on. Steps that nothing is due at cost some additions.
CallbackPtr monitor(const MonitorOptions& options = {}, MonitorContext context = {});

}  // namespace starling
