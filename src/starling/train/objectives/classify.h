#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct ClassifyOptions {
  double label_smoothing = 0;
  std::vector<double> class_weights{};   // empty: all 1
  std::optional<std::int64_t> ignore{};  // label to ignore
  static Settings settings();
};
// Single-label classification. Fields: samples, labels i64. The network returns logits [n, classes] for labels [n], or
// [n, classes, d…] for labels [n, d…], as for pixels.
ObjectivePtr classify(const ClassifyOptions& options = {});

struct MultiLabelOptions {
  std::vector<double> positive_weights{};  // weight of positives per label; empty: 1
  static Settings settings();
};
// Multi-label classification. Fields: samples, labels [n, labels] of 0 and 1 (floats or integers). The network returns
// logits of the same shape.
ObjectivePtr multi_label(const MultiLabelOptions& options = {});

}  // namespace starling
