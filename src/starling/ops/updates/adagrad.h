#pragma once

#include <cmath>

#include "starling/ops/def/attrs/update.h"

namespace starling::op {

// sum += g²; w -= lr / (1 + (t - 1) · lr_decay) · g / (√sum + eps).
struct AdagradUpdateAttrs {
  double lr_decay = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adagrad_update";
  static constexpr bool kRows = true;  // also updates rows: see row_sparse.h
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields() {
    using A = AdagradUpdateAttrs;
    return {field("lr_decay", &A::lr_decay), field("eps", &A::eps), field("weight_decay", &A::weight_decay),
            field("scaled", &A::scaled), field("guarded", &A::guarded)};
  }

  void step(const UpdateMoment& now, UpdateElement& x, double g, const UpdateNorms&) const {
    g += weight_decay * x[0];
    x[1] += g * g;
    x[0] -= now.lr / (1 + (now.t - 1) * lr_decay) * g / (std::sqrt(x[1]) + eps);
  }
};

}  // namespace starling::op
