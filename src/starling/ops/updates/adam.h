#pragma once

#include <algorithm>
#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// m = beta1 · m + (1 - beta1) · g; v = beta2 · v + (1 - beta2) · g²; amsgrad: x = max(x, v), else x = v;
// w -= lr · (m / (1 - beta1ᵗ)) / (√(x / (1 - beta2ᵗ)) + eps).
struct AdamUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool amsgrad = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adam_update";
  static constexpr bool kRows = true;  // also updates rows: see row_sparse.h
  static constexpr std::size_t kScalars = 2;
  std::size_t states() const { return amsgrad ? 3 : 2; }
  static AttrFields fields() {
    using A = AdamUpdateAttrs;
    return {field("beta1", &A::beta1),
            field("beta2", &A::beta2),
            field("eps", &A::eps),
            field("weight_decay", &A::weight_decay),
            field("decoupled", &A::decoupled),
            field("amsgrad", &A::amsgrad),
            field("scaled", &A::scaled),
            field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    if (decoupled)
      x[0] -= now.lr * weight_decay * x[0];
    else
      g += weight_decay * x[0];
    x[1] = beta1 * x[1] + (1 - beta1) * g;
    x[2] = beta2 * x[2] + (1 - beta2) * g * g;
    double second = x[2];
    if (amsgrad) second = x[3] = std::max(x[3], x[2]);
    const double m = x[1] / (1 - std::pow(beta1, now.t)), v = second / (1 - std::pow(beta2, now.t));
    x[0] -= now.lr * m / (std::sqrt(v) + eps);
  }
};

}  // namespace starling::op
