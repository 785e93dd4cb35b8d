#include "starling/dist/codec/factors_codec.h"

namespace starling::dist {

ExchangeCost dense_cost(const FactorShape& shape, int ranks) {
  const auto values = static_cast<double>(shape.outputs * shape.inputs);
  return {.words = 2 * values * (ranks - 1) / ranks, .flops = values, .messages = 2.0 * (ranks - 1)};
}

ExchangeCost factors_cost(const FactorShape& shape, int ranks) {
  const auto rows = static_cast<double>(shape.rows * (ranks - 1));
  return {.words = rows * static_cast<double>(shape.outputs + shape.inputs),
          .flops = 2 * rows * static_cast<double>(shape.outputs * shape.inputs),
          .messages = 2.0 * (ranks - 1)};
}

}  // namespace starling::dist
