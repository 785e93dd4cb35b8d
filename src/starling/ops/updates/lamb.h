#pragma once

#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// m, v as in Adam without weight decay; u = (m / (1 - beta1ᵗ)) / (√(v / (1 - beta2ᵗ)) + eps) + weight_decay · w;
// w -= lr · |w| / |u| · u with the norms of each whole tensor; the ratio is 1 if a norm is 0.
struct LambUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lamb_update";
  static constexpr bool kNorms = true;
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields() {
    using A = LambUpdateAttrs;
    return {field("beta1", &A::beta1),   field("beta2", &A::beta2),
            field("eps", &A::eps),       field("weight_decay", &A::weight_decay),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  double direction(const UpdateMoment& now, UpdateElement& x, double g) const {
    x[1] = beta1 * x[1] + (1 - beta1) * g;
    x[2] = beta2 * x[2] + (1 - beta2) * g * g;
    const double m = x[1] / (1 - std::pow(beta1, now.t)), v = x[2] / (1 - std::pow(beta2, now.t));
    return m / (std::sqrt(v) + eps) + weight_decay * x[0];
  }
  // Value whose norm is taken besides the weights'.
  double measured(const UpdateMoment& now, UpdateElement x, double g) const { return direction(now, x, g); }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms& norms) const {
    const double ratio = norms.weights > 0 && norms.others > 0 ? norms.weights / norms.others : 1;
    const double u = direction(now, x, g);
    x[0] -= now.lr * ratio * u;
  }
};

}  // namespace starling::op
