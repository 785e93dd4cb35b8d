#pragma once

#include <functional>
#include <vector>

#include "starling/starling.h"

namespace starling::testing {

inline Tensor number(double value) { return from_doubles(std::vector<double>{value}, {}, DType::f64); }

inline Tensor row(std::vector<double> values) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size())}, DType::f64);
}

inline Tensor leaf(Tensor x) { return x.set_requires_grad(); }

inline Tensor named(Tensor x, const char* name) { return x.set_name(name); }

// Central difference (f(x + h·v) - f(x - h·v)) / 2h, for each output of f.
inline std::vector<double> slope(const std::function<Tensor(const Tensor&)>& f, const Tensor& x, const Tensor& v,
                                 double h = 1e-5) {
  const NoGrad off;
  const auto above = f(add(x, mul(v, h))).to_vector(), below = f(sub(x, mul(v, h))).to_vector();
  std::vector<double> slopes(above.size());
  for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = (above[i] - below[i]) / (2 * h);
  return slopes;
}

}  // namespace starling::testing
