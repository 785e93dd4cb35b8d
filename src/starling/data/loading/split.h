#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/data/datasets/dataset.h"
#include "starling/data/source.h"

namespace starling::data {

// A selection of another data set's samples.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> base, std::vector<std::int64_t> rows);
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::vector<TensorType> fields() const override { return base_->fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  std::shared_ptr<const Dataset> base_;
  std::vector<std::int64_t> rows_;
};

// Part of a data set with the given rows: made by the data set itself if it can, else a Subset.
std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> data, std::vector<std::int64_t> rows);

// The first `count` samples of a data set; all if it has no more.
std::shared_ptr<const Dataset> first_of(std::shared_ptr<const Dataset> data, std::int64_t count);

// Options shared by all data sources.
struct SplitOptions {
  std::int64_t train_limit = 0;
  std::int64_t test_limit = 0;
  double valid_share = 0;
  std::int64_t split_seed = 0;
  static Settings settings() {
    return {setting("train_limit", &SplitOptions::train_limit, "samples to train with at most; 0: all", {.min = 0}),
            setting("test_limit", &SplitOptions::test_limit, "samples to test with at most; 0: all", {.min = 0}),
            setting("valid_share", &SplitOptions::valid_share, "share of the training samples kept for validation",
                    {.min = 0, .max = 0.9}),
            setting("split_seed", &SplitOptions::split_seed, "another one keeps others", {.min = 0})};
  }
};

// Settings of a source followed by the shared split settings.
inline Settings with_splits(Settings own) {
  for (auto& setting : SplitOptions::settings()) own.push_back(std::move(setting));
  return own;
}

// Hash to a number in [0, 1) that depends on the text (or number) and the seed alone. A sample is in a share if its
// hash is below it, however many other samples there are.
double share_of(std::string_view text, std::int64_t seed);
double share_of(std::int64_t number, std::int64_t seed);

// Moves the validation samples (by index) from `train` to `valid` and applies the limits.
void finish_splits(DataSplits& splits, const SplitOptions& options);

// Moves a share of `train` to `test`, for sources without test data; by another seed than validation.
void take_test_share(DataSplits& splits, double share, std::int64_t seed);

}  // namespace starling::data
