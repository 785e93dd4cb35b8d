#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "starling/tensor/tensor.h"

namespace starling::train {

// Where a batch itself holds an infinity or NaN, so that no learning rate helps.
struct BadInput {
  int field = 0;
  std::int64_t sample = 0;   // of the batch
  std::string text() const;  // "field 0 of its sample 3"
};

// The first such value of a batch's fields; nullopt: all are finite.
std::optional<BadInput> first_bad_input(std::span<const Tensor> fields);

}  // namespace starling::train
