#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "starling/base/settings.h"
#include "starling/train/objective.h"

namespace starling {

struct ClassifyOptions {
  double label_smoothing = 0;
  std::vector<double> class_weights{};   // empty: all weigh 1
  std::optional<std::int64_t> ignore{};  // a label that counts nothing
  static Settings settings();
};
// One class out of several. Fields: samples, labels i64. The network gives logits
// [n, classes] for labels [n], or [n, classes, d…] for labels [n, d…], as of pixels.
ObjectivePtr classify(const ClassifyOptions& options = {});

struct MultiLabelOptions {
  std::vector<double> positive_weights{};  // what a label that holds counts, for each; empty: 1
  static Settings settings();
};
// Any number of labels at once. Fields: samples, labels [n, labels] of 0 and 1 (floats or integers). The network gives
// logits of the same shape.
ObjectivePtr multi_label(const MultiLabelOptions& options = {});

}  // namespace starling
