#pragma once

#include <hwy/targets.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace starling::testing {

// Runs `body` once per instruction set this machine and this build share, the portable baseline included.
template <class Body>
void for_each_target(Body&& body) {
  for (std::int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Distance between `got` and the exact `want` in units in the last place of T at `want`.
template <class T>
double ulps(T got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  if (std::isinf(static_cast<T>(want)) || std::isinf(got)) {
    return static_cast<T>(want) == got ? 0 : std::numeric_limits<double>::infinity();
  }
  const T rounded = std::abs(static_cast<T>(want));
  const double unit = static_cast<double>(std::nextafter(rounded, std::numeric_limits<T>::infinity())) - rounded;
  return std::abs(static_cast<double>(got) - want) / unit;
}

// n values whose first element is `offset` elements past an aligned address, so that vectors straddle cache lines.
template <class T>
class Unaligned {
 public:
  explicit Unaligned(std::int64_t n, std::int64_t offset = 1)
      : storage_(static_cast<std::size_t>(n + offset + 1), T{77}), data_(storage_.data() + offset), n_(n) {}
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t size() const { return n_; }
  T& operator[](std::int64_t i) { return data_[i]; }
  const T& operator[](std::int64_t i) const { return data_[i]; }
  // True if the guard elements around the data are unchanged.
  bool intact() const { return storage_.back() == T{77} && (data_ == storage_.data() || data_[-1] == T{77}); }

 private:
  std::vector<T> storage_;
  T* data_;
  std::int64_t n_;
};

template <class T>
void fill_random(T* p, std::int64_t n, double low, double high, unsigned seed = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  for (std::int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(uniform(engine));
}

}  // namespace starling::testing
