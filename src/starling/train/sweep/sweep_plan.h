#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "starling/train/sweep/sweep_job.h"

namespace starling::train {

// One combination of settings.
struct Trial {
  std::vector<std::pair<std::string, OrderedJson>> values{};
  friend bool operator==(const Trial&, const Trial&) = default;
};
std::string label(const Trial& trial);                   // "lr=0.1 batch=32"
std::vector<std::string> overrides(const Trial& trial);  // for --set: "optimizer.lr=0.1"

// All trials of a sweep; the same sweep gives the same trials. More random trials begin with those of fewer. Throws if
// nothing varies, and on a range in a grid.
std::vector<Trial> make_trials(const SweepJob& sweep);

// A stage of a sweep: `trials` of them train until they have done `epochs` in all.
struct Rung {
  std::int64_t epochs = 0;
  std::int64_t trials = 0;
  friend bool operator==(const Rung&, const Rung&) = default;
};
// One stage with all trials for grid and random; for halving, the best 1/eta of each stage go on to the next, which has
// eta times the epochs, until the job's own are reached.
std::vector<Rung> make_rungs(const SweepJob& sweep, std::int64_t trials, std::int64_t epochs);

}  // namespace starling::train
