#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "starling/data/datasets/dataset.h"

namespace starling {

// Windows of a token sequence: field 0 is ids i64[window], field 1 the next id at each position.
class WindowDataset final : public Dataset {
 public:
  // Window w begins at begin + w · stride; only ids in [begin, end) are used.
  WindowDataset(std::shared_ptr<const std::vector<std::int32_t>> ids, std::int64_t begin, std::int64_t end,
                std::int64_t window, std::int64_t stride);

  std::int64_t size() const override { return size_; }
  std::vector<TensorType> fields() const override { return {{DType::i64, {window_}}, {DType::i64, {window_}}}; }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

 private:
  std::shared_ptr<const std::vector<std::int32_t>> ids_;
  std::int64_t begin_, window_, stride_, size_;
};

}  // namespace starling
