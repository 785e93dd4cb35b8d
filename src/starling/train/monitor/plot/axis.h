#pragma once

#include <string>
#include <vector>

namespace starling {

struct Tick {
  double value = 0;
  std::string label{};  // empty: a mark without a number
};

// One axis of a plot: what it covers and where its marks are.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks{};

  double part(double value) const;  // 0 at low, 1 at high
};

// An axis that covers [low, high] (both > 0 when logarithmic) with about `marks` round numbers. `snug` ends at the
// data, otherwise at the next marks, so that curves do not touch the frame.
Axis make_axis(double low, double high, int marks, bool logarithmic = false, bool snug = false);

}  // namespace starling
