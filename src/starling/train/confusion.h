#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/train/metric.h"

namespace starling::train {

// Confusion matrix: counts by (label, argmax of the logits).
class Confusion {
 public:
  void add(const Judged& batch, const char* who);
  void reset() { counts_.clear(), classes_ = 0; }

  std::vector<double> sums() const { return {counts_.begin(), counts_.end()}; }
  void join(std::span<const double> sums);

  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t label, std::int64_t predicted) const {
    return counts_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
  std::int64_t total() const;
  std::int64_t of_label(std::int64_t label) const;           // samples of the class
  std::int64_t of_prediction(std::int64_t predicted) const;  // samples predicted as the class
  std::string table(const std::vector<std::string>& class_names) const;

 private:
  std::int64_t classes_ = 0;
  std::vector<std::int64_t> counts_;
};

}  // namespace starling::train
