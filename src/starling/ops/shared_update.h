#pragma once

#include "starling/ops/attrs.h"

namespace starling {

// How ranks share out the update of a weight whose gradient is a product of rows that are smaller than it: every rank
// gathers the factors of all, makes the update of its own rows of the weight, and gets the others' rows from them. The
// gradient is never stored, and nobody makes another's update again. The pass shared_updates chooses such weights.
//
// matmul_sgd_rows(w, v, a, b, lr): rows [begin, begin + n) of w and v make a step with the gradient aᵀ b, of n rows;
// the others stay as they are.
struct RowsSgdAttrs {
  std::int64_t begin = 0;
  double momentum = 0;
  double weight_decay = 0;
  static AttrFields fields() {
    return {field("begin", &RowsSgdAttrs::begin), field("momentum", &RowsSgdAttrs::momentum),
            field("weight_decay", &RowsSgdAttrs::weight_decay)};
  }
};

// gather_rows(xs...) {PiecesAttrs}: whole tensors of `rows` rows, of which every rank brings its own piece: afterwards
// all have all pieces. In place.

}  // namespace starling
