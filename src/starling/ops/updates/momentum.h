#pragma once

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// SGD as sgd_update (state.h), with factor and skip: v = momentum · v + g; w -= lr · (nesterov ? g + momentum · v : v).
// Without momentum there is no state v.
struct MomentumUpdateAttrs {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "momentum_update";
  static constexpr bool kRows = true;  // also updates rows: see row_sparse.h
  static constexpr std::size_t kScalars = 1;
  std::size_t states() const { return momentum != 0 ? 1 : 0; }
  static AttrFields fields() {
    using A = MomentumUpdateAttrs;
    return {field("momentum", &A::momentum), field("weight_decay", &A::weight_decay), field("nesterov", &A::nesterov),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    g += weight_decay * x[0];
    double direction = g;
    if (states() > 0) {
      x[1] = momentum * x[1] + g;
      direction = nesterov ? g + momentum * x[1] : x[1];
    }
    x[0] -= now.lr * direction;
  }
};

}  // namespace starling::op
