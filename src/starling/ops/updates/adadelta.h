#pragma once

#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// s = rho · s + (1 - rho) · g²; u = √(d + eps) / √(s + eps) · g; d = rho · d + (1 - rho) · u²; w -= lr · u.
struct AdadeltaUpdateAttrs {
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adadelta_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields() {
    using A = AdadeltaUpdateAttrs;
    return {field("rho", &A::rho), field("eps", &A::eps), field("weight_decay", &A::weight_decay),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    g += weight_decay * x[0];
    x[1] = rho * x[1] + (1 - rho) * g * g;
    const double u = std::sqrt(x[2] + eps) / std::sqrt(x[1] + eps) * g;
    x[2] = rho * x[2] + (1 - rho) * u * u;
    x[0] -= now.lr * u;
  }
};

}  // namespace starling::op
