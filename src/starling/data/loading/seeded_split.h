#pragma once

#include <cstdint>

#include "starling/base/config/settings.h"
#include "starling/data/source.h"

namespace starling::data {

// Cuts the training samples of any source into parts. Which samples a part gets is a function of the seed and the
// number of samples alone; the parts have exactly the asked shares, rounded.
struct SeededSplit {
  double test = 0;
  double valid = 0;
  std::int64_t seed = 0;
  static Settings settings() {
    using O = SeededSplit;
    return {setting("test", &O::test, "share of the samples to test with", {.min = 0, .max = 0.9}),
            setting("valid", &O::valid, "share of the samples to validate with", {.min = 0, .max = 0.9}),
            setting("seed", &O::seed, "another one chooses other samples", {.min = 0})};
  }
};

// Throws if the source streams its samples, has such a part already, or has too few samples.
void split_by_seed(DataSplits& splits, const SeededSplit& how);

}  // namespace starling::data
