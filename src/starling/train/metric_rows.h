#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "starling/train/metric.h"

namespace starling::train {

// Calls f(logits of the row, label) for each row with a label of at least 0. Throws unless the prediction is f32 [d…,
// classes] and the target i64 [d…].
template <class F>
void for_each_label(const Judged& batch, const char* who, F f);

void expect_labels(const Judged& batch, const char* who);
// Throws unless prediction and target are f32 with equally many elements.
void expect_numbers(const Judged& batch, const char* who);
// Elements of a tensor of any dtype as doubles.
std::vector<double> numbers_of(const Tensor& tensor);

// Index of the largest logit. NaN counts as larger than any number, so that it is not silently ignored.
inline std::int64_t largest(const float* logits, std::int64_t classes) {
  const auto less = [](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  return std::max_element(logits, logits + classes, less) - logits;
}
// True if the label has the largest logit, and it is not NaN.
inline bool tells(const float* logits, std::int64_t classes, std::int64_t label) {
  return largest(logits, classes) == label && !std::isnan(logits[label]);
}

template <class F>
void for_each_label(const Judged& batch, const char* who, F f) {
  expect_labels(batch, who);
  const std::int64_t classes = batch.prediction.size(-1);
  const auto* logits = batch.prediction.data<float>();
  const auto* labels = batch.target.data<std::int64_t>();
  for (std::int64_t row = 0; row < batch.target.numel(); ++row, logits += classes) {
    if (labels[row] >= 0) f(logits, labels[row]);
  }
}

// sum / count; NaN if count is 0.
double ratio(double sum, double count);

// Hits out of a count: the state of most label metrics.
struct Share {
  std::int64_t hits = 0;
  std::int64_t count = 0;

  double value() const { return ratio(static_cast<double>(hits), static_cast<double>(count)); }
  std::vector<double> sums() const { return {static_cast<double>(hits), static_cast<double>(count)}; }
  void join(std::span<const double> sums) {
    hits += static_cast<std::int64_t>(sums[0]);
    count += static_cast<std::int64_t>(sums[1]);
  }
};

}  // namespace starling::train
