#include "starling/train/monitor/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace starling::train {
namespace {

// Smallest of 1, 2 or 5 times a power of ten that is not below the given value.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= value * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

// Formats with as many decimals as the distance of two ticks needs; thousands and millions abbreviated.
std::string label(double value, double step) {
  const double size = std::max(std::abs(value), step);
  if (size >= 1e7 || step < 1e-5) return fmt::format("{:.3g}", value);
  if (step >= 1000) return value == 0 ? "0" : fmt::format("{:g}k", value / 1000);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

// Widens the range of (nearly) equal values: ticks between them would have no digits left.
void widen(double& low, double& high) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low > 1e-9 * size) return;
  const double room = size == 0 ? 1 : size * 0.05;
  low -= room;
  high += room;
}

Axis linear_axis(double low, double high, int marks, bool snug) {
  widen(low, high);
  const double step = round_up((high - low) / std::max(marks, 1));
  Axis axis{.low = low, .high = high};
  if (!snug) {
    axis.low = step * std::floor(low / step + 1e-9);
    axis.high = step * std::ceil(high / step - 1e-9);
  }
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + 1e-9 * step; ++k) {
    const double value = k == 0 ? 0 : k * step;  // avoids minus zero
    axis.ticks.push_back({value, label(value, step)});
  }
  return axis;
}

// Labels powers of ten; if there are few, also 2 and 5 times those.
Axis logarithmic_axis(double low, double high) {
  if (high <= low * (1 + 1e-9)) {
    low /= 1.1;
    high *= 1.1;
  }
  Axis axis{.low = low, .high = high, .logarithmic = true};
  const int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
  const bool many = std::log10(high / low) > 3;
  for (int power = first; power <= last; ++power) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * std::pow(10, power);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      const bool numbered = digit == 1 || (!many && (digit == 2 || digit == 5));
      axis.ticks.push_back({value, numbered ? fmt::format("{:g}", value) : ""});
    }
  }
  const bool none = std::none_of(axis.ticks.begin(), axis.ticks.end(), [](const Tick& t) { return !t.label.empty(); });
  if (none) {
    axis.ticks.insert(axis.ticks.begin(), {low, fmt::format("{:.3g}", low)});
    axis.ticks.push_back({high, fmt::format("{:.3g}", high)});
  }
  return axis;
}

}  // namespace

double Axis::part(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Axis make_axis(double low, double high, int marks, bool logarithmic, bool snug) {
  return logarithmic ? logarithmic_axis(low, high) : linear_axis(low, high, marks, snug);
}

}  // namespace starling::train
