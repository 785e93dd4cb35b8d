#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "starling/train/callback.h"
#include "starling/train/resume.h"

namespace starling {

struct CheckpointsOptions {
  std::filesystem::path folder{};  // empty: checkpoints/ in the folder of the run
  std::int64_t every_steps = 0;    // 0: no such rhythm; every epoch and the end of a run save anyway
  double every_seconds = 0;
  int keep = 3;        // newest ones that stay, at least 2
  std::string best{};  // a metric: the checkpoint with its best value stays too, in <folder>-best
  bool best_is_lowest = false;
  Resume resume = Resume::automatic;  // from the newest sound checkpoint, or from the beginning
};

// Saves the run and goes on with the newest sound checkpoint. A save that fails is told and training goes on.
CallbackPtr checkpoints(const CheckpointsOptions& options = {});

}  // namespace starling
