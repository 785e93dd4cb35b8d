#pragma once

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// r = trust · |w| / (|g| + weight_decay · |w| + eps) with the norms of each whole tensor, 1 if |w| or |g| is 0;
// v = momentum · v + lr · r · (g + weight_decay · w); w -= v.
struct LarsUpdateAttrs {
  double momentum = 0.9;
  double trust = 0.001;
  double eps = 0;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lars_update";
  static constexpr bool kNorms = true;
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields() {
    using A = LarsUpdateAttrs;
    return {field("momentum", &A::momentum),         field("trust", &A::trust),   field("eps", &A::eps),
            field("weight_decay", &A::weight_decay), field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms& norms) const {
    const double ratio = norms.weights > 0 && norms.others > 0
                             ? trust * norms.weights / (norms.others + weight_decay * norms.weights + eps)
                             : 1;
    x[1] = momentum * x[1] + now.lr * ratio * (g + weight_decay * x[0]);
    x[0] -= x[1];
  }
};

}  // namespace starling::op
