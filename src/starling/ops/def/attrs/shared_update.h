#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

// Sharing the update of a weight between ranks, if its gradient is a product of factors smaller than the weight: every
// rank gathers all factors, updates its own rows of the weight, and receives the other rows (gather_rows). The gradient
// is never stored, and no update is computed twice. The pass shared_updates chooses such weights.
//
// matmul_sgd_rows(w, v, a, b, lr): SGD step of rows [begin, begin + n) of w and v with the gradient aᵀ b, of n rows;
// other rows are unchanged.
struct RowsSgdAttrs {
  std::int64_t begin = 0;
  double momentum = 0;
  double weight_decay = 0;
  static AttrFields fields() {
    return {field("begin", &RowsSgdAttrs::begin), field("momentum", &RowsSgdAttrs::momentum),
            field("weight_decay", &RowsSgdAttrs::weight_decay)};
  }
};

}  // namespace starling::op
