#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/train/job/job.h"

namespace starling::train {

// Values that a sweep tries for one setting of a job: those of a list, or numbers drawn from a range.
struct SweepSetting {
  std::string path{};                 // optimizer.lr
  std::vector<OrderedJson> values{};  // empty: a range
  double min = 0;
  double max = 0;
  bool log = false;    // draw evenly on a logarithmic scale
  bool whole = false;  // whole numbers only: both ends are
};

// The section `sweep` of a job: `starling sweep` reads it, `starling train` only checks it.
struct SweepJob {
  enum class Method { grid, random, halving } method = Method::grid;
  std::int64_t trials = 16;
  std::int64_t seed = 1;
  std::string metric{};
  std::int64_t eta = 3;
  std::int64_t first_epochs = 1;
  static Settings settings();

  std::vector<SweepSetting> vary{};  // the key `settings`
};

// Reads the section. Throws with the place of the wrong value.
SweepJob read_sweep(const ConfigNode& node);

// Reads what the command line says: "optimizer.lr=0.1,0.01", "optimizer.lr=[0.1, 0.01]" or
// "optimizer.lr={min: 0.001, max: 0.1, log: true}".
SweepSetting parse_vary(const std::string& text);

// Adds a setting, or replaces the one of the same path.
void put_setting(SweepJob& sweep, SweepSetting setting);

}  // namespace starling::train
