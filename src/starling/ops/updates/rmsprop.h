#pragma once

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// s = alpha · s + (1 - alpha) · g²; centered: a = alpha · a + (1 - alpha) · g, else a = 0; u = g / (√(s - a²) + eps),
// with s - a² clamped at 0 against rounding; momentum: b = momentum · b + u, w -= lr · b, else w -= lr · u. States: s,
// then a and b if used.
struct RmspropUpdateAttrs {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  bool centered = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "rmsprop_update";
  static constexpr std::size_t kScalars = 1;
  std::size_t states() const { return 1 + std::size_t{centered} + std::size_t{momentum != 0}; }
  static AttrFields fields() {
    using A = RmspropUpdateAttrs;
    return {field("alpha", &A::alpha),       field("eps", &A::eps),
            field("momentum", &A::momentum), field("weight_decay", &A::weight_decay),
            field("centered", &A::centered), field("scaled", &A::scaled),
            field("guarded", &A::guarded)};
  }

  // Centred it needs alpha > 0: a single gradient has no deviation.
  void expect_valid(const std::string& op) const {
    check(!centered || alpha > 0, "[{}] expected alpha above 0 where it is centered, got {}", op, alpha);
  }
  std::vector<CaseInput> sample_states() const {
    std::vector<CaseInput> all{kSampleSquares};
    if (centered) all.push_back(kSampleMean);
    if (momentum != 0) all.push_back(kSampleMean);
    return all;
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    g += weight_decay * x[0];
    x[1] = alpha * x[1] + (1 - alpha) * g * g;
    double mean = 0;
    if (centered) mean = x[2] = alpha * x[2] + (1 - alpha) * g;
    const double variance = x[1] - mean * mean;
    double u = g / (std::sqrt(variance < 0 ? 0 : variance) + eps);
    if (momentum != 0) {
      double& buffer = x[states()];
      u = buffer = momentum * buffer + u;
    }
    x[0] -= now.lr * u;
  }
};

}  // namespace starling::op
