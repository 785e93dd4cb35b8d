#pragma once

#include <functional>
#include <vector>

namespace starling::optim {

// A point on a line: how far along, the loss there, its slope along the line, and its gradient.
struct LinePoint {
  double t = 0;
  double loss = 0;
  double slope = 0;
  std::vector<double> gradient{};
};

struct LineSearchOptions {
  double decrease = 1e-4;  // of the loss, as a share of what the slope promises
  double curvature = 0.9;  // the slope must shrink to this share
  double smallest = 1e-9;  // brackets that move no weight by more end the search
  int evaluations = 25;    // after the first
};

// A point that meets the strong Wolfe conditions, else the lowest that was found (Nocedal and Wright, algorithms 3.5
// and 3.6, with cubic interpolation). `start` is at t = 0 with a negative slope, `first` the first length to try,
// `longest` the largest element of the direction.
LinePoint strong_wolfe(const LinePoint& start, double first, double longest,
                       const std::function<LinePoint(double t)>& at, const LineSearchOptions& options);

}  // namespace starling::optim
