#include "starling/data/datasets/transformed_dataset.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"

namespace starling {

TransformedDataset::TransformedDataset(std::shared_ptr<const Dataset> dataset, std::vector<TransformStep> steps,
                                       std::uint64_t seed)
    : dataset_(std::move(dataset)), pipeline_(std::move(steps), dataset_->fields()), seed_(seed) {
  check(!pipeline_.mixes(), "[data] expected transforms of single samples, got one that mixes a batch");
}

void TransformedDataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  if (pipeline_.empty()) return dataset_->gather(rows, out);
  std::vector<Tensor> raw;
  for (const auto& type : dataset_->fields()) {
    Shape shape = type.shape;
    shape.insert(0, static_cast<std::int64_t>(rows.size()));
    raw.push_back(starling::empty(shape, type.dtype));
  }
  dataset_->gather(rows, raw);
  std::vector<SampleKey> keys;
  for (const auto row : rows) keys.push_back({.seed = seed_, .epoch = 0, .sample = row});
  TransformPipeline::Scratch scratch;
  pipeline_.apply(raw, out, keys, scratch);
}

}  // namespace starling
