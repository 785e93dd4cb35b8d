#pragma once

#include <optional>

#include "starling/tensor/tensor.h"

namespace starling {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = std::nullopt;  // negative: counts from the end
  bool sparse = false;
};
// Rows of weight [v, d…] by index: indices i64[…] → […, d…]. An index outside [0, v) is an error naming its position.
// The row padding_idx is read like any other but gets no gradient. With `sparse` the gradient of the weight is
// row-sparse, with one entry per index; see row_sparse.h.
Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options = {});

enum class BagMode : std::uint8_t { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  Tensor offsets{};  // i64[b], for 1-D indices: start of each bag; the first is 0, the last bag ends with the indices
  Tensor per_sample_weights{};                             // shape of indices; factors of the rows, sum only
  std::optional<std::int64_t> padding_idx = std::nullopt;  // rows skipped in their bags
  bool sparse = false;
};
// One row per bag, the sum, mean or maximum of its embeddings: indices i64[b, n], each row a bag, or i64[n] cut by
// offsets → [b, d…]. An empty bag gives zeros.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagOptions& options = {});

}  // namespace starling
