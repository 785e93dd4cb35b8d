#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "starling/optim/optimizer_kinds.h"
#include "starling/starling.h"

namespace starling::testing {

inline Tensor parameter(const std::string& name, const std::vector<double>& values, const Shape& shape,
                        DType dtype = DType::f64) {
  Tensor made = from_doubles(values, shape, dtype);
  made.set_requires_grad();
  made.set_name(name);
  return made;
}

inline std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& kind, const std::string& options,
                                                        std::vector<optim::ParameterGroup> groups) {
  const ConfigNode map = ConfigNode::parse(options, "options");
  return optim::optimizer_kinds().choose_named(kind, map, map).make()(std::move(groups));
}

// Largest difference relative to the largest value.
inline double relative_difference(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double most = 0, largest = 1e-300;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    if (!(std::abs(got[i] - want[i]) <= most)) most = std::abs(got[i] - want[i]);  // also true for NaN
    largest = std::max(largest, std::abs(want[i]));
  }
  return most / largest;
}

// Two parameters, and a loss whose gradient is given + pull · w.
struct Pair {
  Tensor a, b;

  explicit Pair(DType dtype, const std::vector<double>& start)
      : a(parameter("a", {start.begin(), start.begin() + 12}, {3, 4}, dtype)),
        b(parameter("b", {start.begin() + 12, start.end()}, {5}, dtype)) {}

  std::vector<Tensor> list() const { return {a, b}; }
  std::vector<double> values() const {
    std::vector<double> all = a.to_vector();
    for (double x : b.to_vector()) all.push_back(x);
    return all;
  }
  // `given` holds 17 numbers.
  Tensor loss(const Tensor& given, double pull) const {
    const Tensor left = reshape(narrow(given, 0, 0, 12), {3, 4}), right = narrow(given, 0, 12, 5);
    return sum(a * left) + sum(b * right) + (0.5 * pull) * (sum(square(a)) + sum(square(b)));
  }
};

}  // namespace starling::testing
