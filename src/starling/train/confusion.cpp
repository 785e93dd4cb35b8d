#include "starling/train/confusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "starling/base/error.h"
#include "starling/train/metric_rows.h"

namespace starling::train {

void Confusion::add(const Judged& batch, const char* who) {
  expect_labels(batch, who);
  const std::int64_t classes = batch.prediction.size(-1);
  if (classes_ == 0) {
    classes_ = classes;
    counts_.assign(static_cast<std::size_t>(classes * classes), 0);
  }
  check(classes == classes_, "[{}] expected {} classes as in earlier batches, got {}", who, classes_, classes);
  for_each_label(batch, who, [&](const float* logits, std::int64_t label) {
    if (label >= classes_) fail("[{}] expected labels below {}, got {}", who, classes_, label);
    ++counts_[static_cast<std::size_t>(label * classes_ + largest(logits, classes_))];
  });
}

void Confusion::join(std::span<const double> sums) {
  if (sums.empty()) return;
  if (counts_.empty()) {
    classes_ = std::llround(std::sqrt(static_cast<double>(sums.size())));
    counts_.assign(sums.size(), 0);
  }
  check(counts_.size() == sums.size(), "[confusion] expected {} classes as in earlier batches, got other ones",
        classes_);
  for (std::size_t i = 0; i < sums.size(); ++i) counts_[i] += static_cast<std::int64_t>(sums[i]);
}

std::int64_t Confusion::total() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::int64_t Confusion::of_label(std::int64_t label) const {
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < classes_; ++c) count += at(label, c);
  return count;
}

std::int64_t Confusion::of_prediction(std::int64_t predicted) const {
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < classes_; ++c) count += at(c, predicted);
  return count;
}

std::string Confusion::table(const std::vector<std::string>& class_names) const {
  const auto name = [&](std::int64_t c) {
    const auto i = static_cast<std::size_t>(c);
    return i < class_names.size() ? class_names[i] : fmt::to_string(c);
  };
  std::size_t width = 5;
  for (std::int64_t c = 0; c < classes_; ++c) width = std::max(width, name(c).size());
  std::string text = fmt::format("{:>{}}", "label", width);
  for (std::int64_t c = 0; c < classes_; ++c) text += fmt::format(" {:>{}}", name(c), width);
  text += '\n';
  for (std::int64_t label = 0; label < classes_; ++label) {
    text += fmt::format("{:>{}}", name(label), width);
    for (std::int64_t c = 0; c < classes_; ++c) text += fmt::format(" {:>{}}", at(label, c), width);
    text += '\n';
  }
  return text;
}

}  // namespace starling::train
