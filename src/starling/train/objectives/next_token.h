#pragma once

#include <cstdint>
#include <optional>

#include "starling/base/config/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct NextTokenOptions {
  double label_smoothing = 0;
  std::optional<std::int64_t> ignore{};  // target id to ignore, such as padding
  static Settings settings();
};
// Language modelling: the next token at each position. Fields: ids i64 [n, t] and the following ids [n, t]; or one
// field [n, t + 1] that holds both. The network returns logits [n, t, vocabulary]. Every token has the same weight.
ObjectivePtr next_token(const NextTokenOptions& options = {});

}  // namespace starling
