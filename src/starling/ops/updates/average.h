#pragma once

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// Running averages of weights: w = (1 - lr) · w + lr · g, where g is the averaged tensor.
struct AverageUpdateAttrs {
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "average_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 0; }
  static AttrFields fields() {
    using A = AverageUpdateAttrs;
    return {field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    x[0] = (1 - now.lr) * x[0] + now.lr * g;
  }
};

}  // namespace starling::op
