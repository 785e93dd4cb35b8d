#include "starling/ops/def/random_checks.h"

#include "starling/base/error.h"

namespace starling {

void check_key(const TensorType& key, const InferCall& call) {
  check(key.dtype == DType::i64 && key.shape == Shape{2}, "[{}] expected a key i64[2] of seed and step, got {}",
        call.op.name, to_string(key));
}

void check_piece(const Shape& own, const Shape& global, const Shape& offset, const InferCall& call) {
  bool fits = global.rank() == offset.rank() && (global.empty() || global.rank() == own.rank());
  for (int i = 0; fits && i < global.rank(); ++i)
    fits = offset[i] >= 0 && own[i] <= global[i] && offset[i] <= global[i] - own[i];
  check(fits, "[{}] expected a piece {} at {} within {}", call.op.name, to_string(own), to_string(offset),
        to_string(global));
  check_size(global, 1, call.op.name.c_str());
}

}  // namespace starling
