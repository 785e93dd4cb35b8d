#pragma once

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// u = sign(beta1 · m + (1 - beta1) · g); m = beta2 · m + (1 - beta2) · g; w -= lr · (u + weight_decay · w).
struct LionUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lion_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields() {
    using A = LionUpdateAttrs;
    return {field("beta1", &A::beta1), field("beta2", &A::beta2), field("weight_decay", &A::weight_decay),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    const double c = beta1 * x[1] + (1 - beta1) * g;
    const double u = c > 0 ? 1 : c < 0 ? -1 : c;
    x[1] = beta2 * x[1] + (1 - beta2) * g;
    x[0] -= now.lr * (u + weight_decay * x[0]);
  }
};

}  // namespace starling::op
