#pragma once

#include <memory>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/transform_pipeline.h"

namespace starling {

// A data set seen through sample transforms. Random transforms draw the same for a sample every time, as in one epoch.
class TransformedDataset final : public Dataset {
 public:
  // Throws on steps that mix the samples of a batch.
  TransformedDataset(std::shared_ptr<const Dataset> dataset, std::vector<TransformStep> steps, std::uint64_t seed = 0);
  std::int64_t size() const override { return dataset_->size(); }
  std::vector<TensorType> fields() const override { return pipeline_.fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  TransformPipeline pipeline_;
  std::uint64_t seed_;
};

}  // namespace starling
