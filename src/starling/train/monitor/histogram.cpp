#include "starling/train/monitor/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "starling/base/as_double.h"
#include "starling/base/parallel.h"
#include "starling/data/formats/host_bytes.h"

namespace starling::train {
namespace {

constexpr double kSmallest = 1e-12, kLargest = 1e20, kGrowth = 1.1;
constexpr std::int64_t kGrain = 1 << 16;
constexpr int kKeyShift = 16;  // sign, exponent and 7 bits of fraction: cells below 1 %
constexpr std::size_t kKeys = std::size_t{1} << (32 - kKeyShift);

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double v = kSmallest; v < kLargest; v *= kGrowth) positive.push_back(v);
  std::vector<double> limits;
  for (auto v = positive.rbegin(); v != positive.rend(); ++v) limits.push_back(-*v);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  limits.push_back(std::numeric_limits<double>::max());
  return limits;
}

std::size_t key_of(double value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> kKeyShift; }

// First guess of a value's bucket, by the leading bits of its float.
class BucketGuess {
 public:
  explicit BucketGuess(const std::vector<double>& limits) : limits_(limits) {
    for (std::size_t key = 0; key < kKeys; ++key) {
      const auto start = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(key << kKeyShift)));
      const auto found = std::isnan(start) ? limits.begin() : std::upper_bound(limits.begin(), limits.end(), start);
      guess_[key] = static_cast<std::uint16_t>(std::min<std::ptrdiff_t>(found - limits.begin(), last()));
    }
  }

  // Bucket of a finite value; the guess is at most one or two buckets off.
  std::size_t operator()(double value) const {
    std::ptrdiff_t i = guess_[key_of(value)];
    while (i < last() && value >= limits_[static_cast<std::size_t>(i)]) ++i;
    while (i > 0 && value < limits_[static_cast<std::size_t>(i - 1)]) --i;
    return static_cast<std::size_t>(i);
  }

 private:
  std::ptrdiff_t last() const { return static_cast<std::ptrdiff_t>(limits_.size()) - 1; }

  const std::vector<double>& limits_;
  std::array<std::uint16_t, kKeys> guess_{};
};

const BucketGuess& bucket_guess() {
  static const BucketGuess guess(histogram_limits());
  return guess;
}

// A histogram with all buckets, including empty ones.
struct Full {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double sum_squares = 0;
  std::int64_t not_finite = 0;
  std::vector<std::int64_t> counts = std::vector<std::int64_t>(histogram_limits().size());

  template <class T>
  void add(const T* values, std::int64_t n) {
    const BucketGuess& bucket = bucket_guess();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto value = as_double(values[i]);
      if (!std::isfinite(value)) {
        ++not_finite;
        continue;
      }
      min = std::min(min, value);
      max = std::max(max, value);
      sum += value;
      sum_squares += value * value;
      ++counts[bucket(value)];
    }
  }

  void merge(const Full& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    sum += other.sum;
    sum_squares += other.sum_squares;
    not_finite += other.not_finite;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  }
};

// Merges runs of empty buckets into the last of each, which keeps the next one's lower limit.
Histogram compact(const Full& full, std::int64_t numel) {
  Histogram h;
  h.not_finite = full.not_finite;
  h.count = numel - full.not_finite;
  if (h.count == 0) return h;
  h.min = full.min;
  h.max = full.max;
  h.sum = full.sum;
  h.sum_squares = full.sum_squares;
  const auto& limits = histogram_limits();
  const auto filled = [&](std::size_t i) { return i < limits.size() && full.counts[i] > 0; };
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (!filled(i) && !filled(i + 1)) continue;
    h.limits.push_back(limits[i]);
    h.counts.push_back(full.counts[i]);
  }
  return h;
}

}  // namespace

double Histogram::norm() const { return std::sqrt(sum_squares); }

const std::vector<double>& histogram_limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

Histogram histogram_of(const Tensor& tensor) {
  const Tensor host = data::on_host(tensor);
  Full all;
  std::mutex mutex;
  dispatch(host.dtype(), [&]<class T>() {
    const T* values = host.data<T>();
    parallel_for(host.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      Full piece;
      piece.add(values + begin, end - begin);
      const std::lock_guard lock(mutex);
      all.merge(piece);
    });
  });
  return compact(all, host.numel());
}

namespace {

// Square root of the sum of term(i)².
template <class Term>
double root_of_squares(std::int64_t count, Term term) {
  double sum = 0;
  std::mutex mutex;
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    double piece = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double value = term(i);
      piece += value * value;
    }
    const std::lock_guard lock(mutex);
    sum += piece;
  });
  return std::sqrt(sum);
}

}  // namespace

double norm(const Tensor& a) {
  check(is_float(a.dtype()), "[norm] expected a tensor of floats, got {}", to_string(a.type()));
  const Tensor x = data::on_host(a);
  return dispatch(x.dtype(), [&]<class T>() {
    return root_of_squares(x.numel(), [p = x.data<T>()](std::int64_t i) { return as_double(p[i]); });
  });
}

double distance(const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype() && a.shape() == b.shape() && is_float(a.dtype()),
        "[distance] expected two tensors of the same float type, got {} and {}", to_string(a.type()),
        to_string(b.type()));
  const Tensor x = data::on_host(a), y = data::on_host(b);
  return dispatch(x.dtype(), [&]<class T>() {
    return root_of_squares(
        x.numel(), [p = x.data<T>(), q = y.data<T>()](std::int64_t i) { return as_double(p[i]) - as_double(q[i]); });
  });
}

}  // namespace starling::train
