#pragma once

#include <algorithm>
#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// m as in Adam; u = max(beta2 · u, |g| + eps); w -= lr / (1 - beta1ᵗ) · m / u.
struct AdamaxUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adamax_update";
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields() {
    using A = AdamaxUpdateAttrs;
    return {field("beta1", &A::beta1),   field("beta2", &A::beta2),
            field("eps", &A::eps),       field("weight_decay", &A::weight_decay),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    g += weight_decay * x[0];
    x[1] = beta1 * x[1] + (1 - beta1) * g;
    x[2] = std::max(beta2 * x[2], std::abs(g) + eps);
    x[0] -= now.lr / (1 - std::pow(beta1, now.t)) * x[1] / x[2];
  }
};

}  // namespace starling::op
