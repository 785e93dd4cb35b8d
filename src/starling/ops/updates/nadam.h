#pragma once

#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// m, v as in Adam; μₜ = beta1 · (1 - 0.96^(t · momentum_decay) / 2); mu is the product of all μ up to this step;
// w -= lr · ((1 - μₜ) / (1 - mu) · g + μₜ₊₁ / (1 - mu · μₜ₊₁) · m) / (√(v / (1 - beta2ᵗ)) + eps).
struct NadamUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 0.004;
  bool decoupled = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "nadam_update";
  static constexpr std::size_t kScalars = 3;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields() {
    using A = NadamUpdateAttrs;
    return {field("beta1", &A::beta1),
            field("beta2", &A::beta2),
            field("eps", &A::eps),
            field("weight_decay", &A::weight_decay),
            field("momentum_decay", &A::momentum_decay),
            field("decoupled", &A::decoupled),
            field("scaled", &A::scaled),
            field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    const auto mu = [&](double t) { return beta1 * (1 - 0.5 * std::pow(0.96, t * momentum_decay)); };
    if (decoupled)
      x[0] -= now.lr * weight_decay * x[0];
    else
      g += weight_decay * x[0];
    x[1] = beta1 * x[1] + (1 - beta1) * g;
    x[2] = beta2 * x[2] + (1 - beta2) * g * g;
    const double deviation = std::sqrt(x[2] / (1 - std::pow(beta2, now.t))) + eps, next = mu(now.t + 1);
    x[0] -= now.lr * (1 - mu(now.t)) / (1 - now.mu) * g / deviation;
    x[0] -= now.lr * next / (1 - now.mu * next) * x[1] / deviation;
  }
};

}  // namespace starling::op
