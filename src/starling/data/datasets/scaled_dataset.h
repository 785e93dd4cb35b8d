#pragma once

#include <vector>

#include "starling/data/datasets/dataset.h"

namespace starling {

// Scale of u8 pixels: (x / 255 - mean) / std, with one mean and std per channel (first axis of a sample) or one for
// all.
struct ByteScale {
  std::vector<float> mean{0};
  std::vector<float> std{1};
};

// Like TensorDataset, but the first column is kept as u8 and scaled to f32 when gathered: a quarter of the memory, and
// only one pass on the way to a batch.
class ScaledDataset final : public Dataset {
 public:
  ScaledDataset(std::vector<Tensor> columns, const ByteScale& scale);  // columns[0] is u8, its samples of rank 1 to 7
  std::int64_t size() const override { return rest_.size(); }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  struct Channel {
    float factor = 1;
    float offset = 0;
  };

  TensorDataset rest_;  // all columns, unscaled
  Tensor bytes_;
  std::vector<Channel> channels_;
  std::int64_t channel_size_ = 0;
};

}  // namespace starling
