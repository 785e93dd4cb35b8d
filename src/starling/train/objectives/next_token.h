#pragma once

#include <cstdint>
#include <optional>

#include "starling/base/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct NextTokenOptions {
  double label_smoothing = 0;
  std::optional<std::int64_t> ignore{};  // an id that is not to be predicted, such as padding
  static Settings settings();
};
// The token after each place. Fields: ids i64 [n, t] and the ids that follow, [n, t]; or one field [n, t + 1] that is
// both. The network gives logits [n, t, vocabulary]. Every token counts the same.
ObjectivePtr next_token(const NextTokenOptions& options = {});

}  // namespace starling
