#pragma once

#include <functional>
#include <vector>

namespace starling::optim {

// Point on a search line: distance t, the loss there, its slope along the line, and its gradient.
struct LinePoint {
  double t = 0;
  double loss = 0;
  double slope = 0;
  std::vector<double> gradient{};
};

struct LineSearchOptions {
  double decrease = 1e-4;  // least decrease of the loss, as a share of the slope's prediction
  double curvature = 0.9;  // largest remaining slope, as a share of the first
  double smallest = 1e-9;  // a bracket that moves no weight by more than this ends the search
  int evaluations = 25;    // besides the first
};

// Finds a point that meets the strong Wolfe conditions, else returns the lowest one seen (Nocedal and Wright,
// algorithms 3.5 and 3.6, with cubic interpolation). `start` is at t = 0 with a negative slope, `first` the first
// length to try, `longest` the largest element of the direction.
LinePoint strong_wolfe(const LinePoint& start, double first, double longest,
                       const std::function<LinePoint(double t)>& at, const LineSearchOptions& options);

}  // namespace starling::optim
