#pragma once

#include <string>
#include <vector>

namespace starling::train {

struct Tick {
  double value = 0;
  std::string label{};  // empty: a tick without a number
};

// One axis of a plot: its range and ticks.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks{};

  double part(double value) const;  // relative position: 0 at low, 1 at high
};

// Axis that covers [low, high] (both > 0 if logarithmic) with about `marks` round ticks. `snug`: ends exactly at the
// data; otherwise at the next ticks, so that curves do not touch the frame.
Axis make_axis(double low, double high, int marks, bool logarithmic = false, bool snug = false);

}  // namespace starling::train
