#pragma once

#include <vector>

#include "starling/data/dataset.h"

namespace starling {

// How bytes become numbers: (x / 255 - mean) / std, with one mean and std for each channel (first axis of a sample) or
// one for all.
struct ByteScale {
  std::vector<float> mean{0};
  std::vector<float> std{1};
};

// Samples held in memory like TensorDataset's, the first column as bytes and handed out as f32: a quarter of the
// memory, and one pass over it on the way to a batch.
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

  TensorDataset rest_;  // all columns as they are
  Tensor bytes_;
  std::vector<Channel> channels_;
  std::int64_t channel_size_ = 0;
};

}  // namespace starling
