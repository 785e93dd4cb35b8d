#pragma once

#include <cstdint>

#include "starling/tensor/shape.h"

namespace starling::dist {

// Counts that coded_reduce keeps of one gradient between steps, in a tensor of f32 behind its states: a program has no
// other place that outlives a run. Numbers of bytes are split, so that floats hold them exactly.
class CodedTraffic {
 public:
  static constexpr std::int64_t kSize = 6;
  static Shape shape() { return {kSize}; }

  explicit CodedTraffic(float* values) : values_(values) {}

  double exchanges() const { return values_[kExchanges]; }
  double before() const { return joined(kBefore); }  // bytes of gradients so far
  double after() const { return joined(kAfter); }    // bytes of their wire forms so far
  double error() const {
    return values_[kError];
  }  // norm of what is kept as a share of the gradient's, when last looked at
  bool looks() const { return static_cast<std::int64_t>(exchanges()) % kLookEvery == 0; }  // before add()

  void add(double before, double after) {
    ++values_[kExchanges];
    put(kBefore, this->before() + before);
    put(kAfter, this->after() + after);
  }
  void set_error(double error) { values_[kError] = static_cast<float>(error); }

 private:
  enum Place : std::uint8_t { kExchanges, kError, kBefore, kAfter = kBefore + 2 };
  static constexpr std::int64_t kLookEvery = 32;
  static constexpr double kUnit = 1 << 22;
  double joined(Place place) const {
    return static_cast<double>(values_[place]) * kUnit + static_cast<double>(values_[place + 1]);
  }
  void put(Place place, double bytes) {
    const auto units = static_cast<std::int64_t>(bytes / kUnit);
    values_[place] = static_cast<float>(units);
    values_[place + 1] = static_cast<float>(bytes - static_cast<double>(units) * kUnit);
  }

  float* values_;
};

}  // namespace starling::dist
