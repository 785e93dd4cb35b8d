// Serial oracle of the conformance suite: inputs whose sums round, the expected reductions, and agreement between
// ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/dispatch.h"

namespace starling::conformance {

inline constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                                    DType::i64, DType::i32, DType::u8,  DType::boolean};
inline constexpr ReduceOp kReductions[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min,
                                           ReduceOp::product};

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Values whose sums round, so that a different order of summation shows.
template <class T>
T value_at(int rank, std::int64_t i) {
  const std::int64_t mixed = (i * 7919 + rank * 104729 + 17) % 1009;
  const float number = static_cast<float>(mixed - 450) / 301.7f;
  if constexpr (std::is_same_v<T, bool>) {
    return mixed % 3 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(mixed - (std::is_signed_v<T> ? 500 : 0));
  } else if constexpr (kIsHalf<T>) {
    return T::from_float(number);
  } else {
    return static_cast<T>(number);
  }
}

// vector<bool> has no data(): buffers of booleans are bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
template <class T>
using Buffer = std::vector<Stored<T>>;

template <class T>
Buffer<T> input(int rank, std::int64_t count) {
  Buffer<T> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value_at<T>(rank, i);
  return data;
}

// Reduction of element i over all ranks in rank order, and the tolerance for other orders.
template <class T>
struct Expected {
  T value;
  double tolerance;
};

template <class T>
Expected<T> reduced_at(ReduceOp reduce, int world, std::int64_t i) {
  using Wide = std::conditional_t<kIsHalf<T>, float, T>;
  Wide acc = static_cast<Wide>(value_at<T>(0, i));
  double sum = std::abs(static_cast<double>(acc)), product = sum;  // sums of magnitudes
  for (int r = 1; r < world; ++r) {
    const Wide v = static_cast<Wide>(value_at<T>(r, i));
    sum += std::abs(static_cast<double>(v));
    product *= std::abs(static_cast<double>(v));
    if constexpr (std::is_integral_v<Wide>) {
      const auto a = static_cast<std::uint64_t>(acc), b = static_cast<std::uint64_t>(v);
      if (reduce == ReduceOp::sum) acc = static_cast<Wide>(a + b);
      if (reduce == ReduceOp::product) acc = static_cast<Wide>(a * b);
    } else {
      if (reduce == ReduceOp::sum || reduce == ReduceOp::mean) acc += v;
      if (reduce == ReduceOp::product) acc *= v;
    }
    if (reduce == ReduceOp::max) acc = std::max(acc, v);
    if (reduce == ReduceOp::min) acc = std::min(acc, v);
  }
  if constexpr (std::is_integral_v<Wide>) {
    return {static_cast<T>(acc), 0.0};
  } else {
    if (reduce == ReduceOp::mean) acc /= static_cast<Wide>(world), sum /= world;
    const bool exact = world == 1 || reduce == ReduceOp::max || reduce == ReduceOp::min;
    const int digits = std::is_same_v<T, Half>       ? 11
                       : std::is_same_v<T, BFloat16> ? 8
                                                     : std::numeric_limits<Wide>::digits;
    const double epsilon = std::ldexp(1.0, 1 - digits), smallest = std::is_same_v<T, Half> ? 6e-8 : 1e-37;
    const double tolerance = (reduce == ReduceOp::product ? product : sum) * epsilon * world + 256 * smallest;
    if constexpr (kIsHalf<T>) {
      return {T::from_float(acc), exact ? 0.0 : tolerance};
    } else {
      return {acc, exact ? 0.0 : tolerance};
    }
  }
}

template <class T>
double number(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

// Checks a reduction result from element `offset` on: bit-equal if the backend combines in rank order, else equal up to
// rounding. Only every stride-th element is checked.
template <class T>
::testing::AssertionResult is_reduced(const Comm& comm, const Stored<T>* result, std::int64_t count, ReduceOp reduce,
                                      std::int64_t offset = 0, std::int64_t first = 0, std::int64_t stride = 1) {
  const bool exact = comm.capabilities().rank_ordered;
  for (std::int64_t i = first; i < count; i += stride) {
    const Expected<T> expected = reduced_at<T>(reduce, comm.size(), offset + i);
    const Stored<T> want = expected.value;
    if (std::memcmp(&want, &result[i], sizeof(want)) == 0) continue;
    const double a = number(want), b = number(result[i]);
    if (!exact && std::abs(a - b) <= expected.tolerance) continue;
    return ::testing::AssertionFailure() << "element " << i << " of " << count << ": expected " << a << " to "
                                         << (exact ? 0.0 : expected.tolerance) << ", got " << b;
  }
  return ::testing::AssertionSuccess();
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Collects values that all ranks must agree on and compares them once.
class Agreement {
 public:
  template <class T>
  void add(const std::vector<T>& data) {
    const auto* bytes = reinterpret_cast<const char*>(data.data());
    hash_ = hash_ * 1099511628211ull + std::hash<std::string_view>{}({bytes, data.size() * sizeof(T)});
  }
  void expect(Comm& comm) const {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
    comm.all_gather(&hash_, all.data(), 1, DType::i64).wait();
    EXPECT_EQ(all, std::vector<std::uint64_t>(all.size(), hash_)) << "ranks do not hold the same bits";
  }

 private:
  std::uint64_t hash_ = 0;
};

inline bool allowed(DType dtype, ReduceOp reduce) {
  if (dtype == DType::boolean) return reduce == ReduceOp::max || reduce == ReduceOp::min;
  return is_float(dtype) || reduce != ReduceOp::mean;
}

template <class F>
void for_dtypes(F f) {
  for (DType dtype : kDTypes) dispatch(dtype, [&]<class T>() { f.template operator()<T>(dtype); });
}

inline std::vector<std::int64_t> counts_for(int world) {
  std::vector<std::int64_t> counts{0, 1, world - 1, world, 1000};
  if (world == 3) counts.push_back(70'001);
  return counts;
}

}  // namespace starling::conformance
